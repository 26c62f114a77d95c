// The model in ONNX Runtime: contexts to log-probabilities, in this browser.
"use strict";

// The bytes of base64 text, which `gzip` made smaller
async function unpack(text) {
  if (!("DecompressionStream" in globalThis)) {
    throw new Error("It is too old. Use one of the year 2023 or later.");
  }
  const data = atob(text);
  const packed = new Uint8Array(data.length);
  // `Uint8Array.from` with a function takes 30 times as long
  for (let i = 0; i < data.length; i += 1) packed[i] = data.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A file of ONNX Runtime: from runtime.js if it is there, else from the internet, where the browser
// checks that it is the file that was tested
async function readRuntimeFile(name) {
  if (RUNTIME.files) return unpack(RUNTIME.files[name]);
  const address = RUNTIME.address + name;
  const response = await fetch(address, { integrity: RUNTIME.integrity[name] }).catch(() => null);
  if (!response?.ok) {
    throw new Error(
      `${address} is not there, or it is not the tested file. ` +
        "Connect to the internet, or export the page with --runtime.",
    );
  }
  return new Uint8Array(await response.arrayBuffer());
}

function makeScriptAddress(data) {
  return URL.createObjectURL(new Blob([data], { type: "text/javascript" }));
}

function loadScript(address) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error("The script of ONNX Runtime fails.")));
    document.head.append(script);
  });
}

// Load ONNX Runtime. Its files have addresses of this page, so that it also works where browsers
// refuse to read files beside a page: in one that was opened without a server.
async function loadRuntime() {
  const names = ["ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"];
  const [script, module, binary] = await Promise.all(names.map(readRuntimeFile));
  await loadScript(makeScriptAddress(script));
  ort.env.wasm.numThreads = 1; // several need a server that sends special headers
  ort.env.wasm.wasmBinary = binary;
  ort.env.wasm.wasmPaths = { mjs: makeScriptAddress(module) };
}

// Return a function from contexts, each an Int32Array, to the log-probabilities of all words after
// each, a Float32Array.
async function loadModel() {
  const [data] = await Promise.all([unpack(MODEL), loadRuntime()]);
  const session = await ort.InferenceSession.create(data);

  return async function computeLogProbs(contexts) {
    const length = contexts[0].length;
    const ids = new Int32Array(contexts.length * length);
    contexts.forEach((context, row) => ids.set(context, row * length));
    const input = new ort.Tensor("int32", ids, [contexts.length, length]);
    const { log_probs: output } = await session.run({ context_ids: input });
    const size = output.dims[1];
    return contexts.map((_, row) => output.data.subarray(row * size, (row + 1) * size));
  };
}
