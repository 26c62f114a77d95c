"""An origin of figures, as tests record it."""

HERE = {
    "date": "2026-11-28",
    "processor": "AMD EPYC",
    "commit": "0123456789",
    "code": "c0de",
    "python": "3.11.7",
    "tensorflow": "2.21.0",
    "keras": "3.15.1",
}
