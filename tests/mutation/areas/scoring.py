"""Scores: evaluation, mixtures, short-lists, new words, tuning, ranking, completion."""

import dataclasses
import math

import numpy as np

from keras_nplm.io.errors import RunError
from tests.mutation.mutants import Altered, changes, first, read_global, within

OF_TUNING = "rescoring/test_tuning.py"
OF_EVALUATION = "models/test_evaluation.py"
OF_SHORTLISTS = "models/test_shortlist.py"
OF_CACHES = "models/test_caches.py"
OF_SEARCHES = "models/dynamic/test_search.py"
OF_SELF_NORMALISED = (
    "models/networks/test_every_network.py::"
    "test_self_normalised_scores_are_the_logits_or_are_refused"
)
OF_COMPLETION = "language_model/test_completion.py"
OF_PROMPTS = "language_model/test_text_answers.py"
OF_SCORERS = "language_model/test_scorer.py"
OF_SCORES = "language_model/test_scoring.py"
MINIMISE = "rescoring.tuning:minimise_loss"


# N-best lists


@changes(MINIMISE, OF_TUNING)
def tuned_weights_keep_the_scale_of_the_features(original, features, *arguments):
    weights = original(features, *arguments)
    _, spread = read_global(original, "_standardise")(features, arguments[1])
    return weights * spread / np.abs(weights * spread).sum()


@changes(MINIMISE, OF_TUNING)
def initial_weights_are_not_scaled_with_the_features(original, features, losses, sizes, initial):
    _, spread = read_global(original, "_standardise")(features, sizes)
    return original(features, losses, sizes, [weights / spread for weights in initial])


@changes(MINIMISE, OF_TUNING)
def tuned_weights_may_be_worse_than_the_initial_ones(original, features, losses, sizes, initial):
    return original(features, losses, sizes, [])


@changes("rescoring.tuning:_PENALTIES", OF_TUNING)
def weights_are_tuned_for_the_smoothest_loss_alone(original):
    return original[:1]


@changes("rescoring.lists:NBestList.sort", "rescoring/test_ranking.py")
def equal_hypotheses_are_reordered(original, *arguments):
    def sort(negative_totals, kind):
        return np.argsort(-negative_totals, kind=kind)[::-1]

    return within(original, np=Altered(np, argsort=sort))(*arguments)


# Evaluation and mixtures


@changes("models.collectors:Perplexity.compute_figures", OF_EVALUATION)
def a_word_of_probability_0_gives_an_infinite_perplexity(original, self):
    try:
        return original(self)
    except RunError:
        return {"perplexity": math.inf}


@changes("models.collectors:compute_exp", OF_EVALUATION)
def a_perplexity_beyond_float64_overflows(original, x):
    return math.exp(x)


@changes("models.collectors:Perplexity.add_log_prob", OF_EVALUATION)
def log_probabilities_are_summed_in_float32(original, self, *arguments):
    original(self, *arguments)
    self._total = float(np.float32(self._total))


@changes("models.shortlist:Shortlist._log_prob", OF_SHORTLISTS)
def a_mass_above_1_outside_the_list_gives_nan(original, *arguments):
    return within(original, np=Altered(np, minimum=first))(*arguments)


@changes("models.shortlist:Shortlist._next_log_probs", OF_SHORTLISTS)
def a_mass_above_1_outside_the_list_gives_nan_in_distributions(original, *arguments):
    return within(original, np=Altered(np, minimum=first))(*arguments)


@changes("models.base:cut_contexts", "models/test_mixture.py")
def a_model_of_a_lower_order_gets_the_first_words_of_a_context(original, model, context_ids):
    return context_ids[:, : model.order - 1]


@changes("models.mixture:_choose_candidates", "models/test_mixture.py")
def the_last_of_the_candidates_joins_a_mixture(original, *arguments):
    measured = []

    def sum_log_probs(columns, weights):
        measured.append(1)
        return float(len(measured))

    return within(original, sum_log_probs=sum_log_probs)(*arguments)


# Networks


@changes("models.networks.growth:renormalise", "models/networks/test_growth.py")
def log_probabilities_with_new_words_overflow(original, log_prob, log_z, new_logits):
    scores = new_logits - log_z[:, None]
    growth = np.log1p(np.exp(scores).sum(axis=1))
    of_old_words = log_prob - growth.reshape(-1, *[1] * (log_prob.ndim - 1))
    return of_old_words, scores - growth[:, None]


@changes(
    "models.networks.self_normalised:SelfNormalised._make_tables",
    OF_SELF_NORMALISED,
)
def the_tables_of_averaged_positions_are_not_scaled(original, self, arrays):
    original(self, dataclasses.replace(arrays, scale=np.ones_like(arrays.scale)))


@changes("layers.arrays:DeepArrays.__call__", OF_SELF_NORMALISED)
def residual_blocks_in_numpy_have_no_layer_normalisation(original, self, z):
    blocks = [dataclasses.replace(block, norm=None) for block in self.blocks]
    return original(dataclasses.replace(self, blocks=blocks), z)


@changes("models.dynamic.tuning:find_settings", OF_SEARCHES)
def chunks_of_another_size_are_chosen_by_an_inverted_threshold(original, *arguments):
    return within(original, _WORTH=1 / read_global(original, "_WORTH"))(*arguments)


@changes(
    "language_model.language_model:LanguageModel.dynamics",
    "language_model/test_dynamics.py",
)
def settings_of_dynamic_evaluation_stay_after_the_weights_have_changed(original, self):
    return self._dynamics


# Caches


@changes("models.caches:NgramCache._weigh", OF_CACHES)
def a_unigram_cache_counts_special_tokens_as_words(original, self, context_ids):
    return original(Altered(self, _is_word=np.ones_like(self._is_word)), context_ids)


@changes("models.caches:NgramCache.__init__", OF_CACHES)
def the_oldest_word_of_a_unigram_cache_weighs_the_most(original, self, *arguments, **options):
    original(self, *arguments, **options)
    self._weights = self._weights[::-1]


@changes("models.caches:NgramCache._weigh", OF_CACHES)
def an_ngram_cache_compares_the_last_word_alone(original, *arguments):
    def enumerate_from_1(values, start):
        for value in values:
            yield 1, value

    return within(original, enumerate=enumerate_from_1)(*arguments)


# Completion


@changes(
    "language_model.completion:choose_beam",
    f"{OF_COMPLETION}::test_completion_equals_brute_force_over_subwords",
)
def completion_keeps_one_partial_word(original, *arguments):
    number, _ = original(*arguments)
    return number, 1


@changes(
    "language_model.completion:LONGEST_PREFIX",
    f"{OF_COMPLETION}::test_long_prefixes_are_completed_up_to_64_letters",
)
def completion_refuses_a_prefix_of_64_letters(original):
    return 63


@changes(
    "language_model.completion:WordPieces.__init__",
    f"{OF_COMPLETION}::test_completion_equals_brute_force_over_characters",
)
def completion_lets_a_text_end_where_a_word_must_follow(original, self, vocabulary, tokenizer):
    original(self, vocabulary, tokenizer)
    self.begins[:, read_global(original, "EOS_ID")] = True


@changes("data.prefixes:BEFORE_WORD", "data/test_prefixes.py")
def completion_reads_too_few_characters_before_the_longest_word(original):
    return 1


# Scores and texts


@changes("models.spelling:SpellingModel.log_prob", "models/test_spelling.py")
def spelling_counts_an_escape_as_one_character(original, *arguments):
    return within(original, UNK_ID=-1)(*arguments)


@changes("language_model.scorer:Scorer.encode", OF_SCORERS)
def a_scorer_forgets_the_space_between_words_of_characters(original, self, state, word):
    encoded = original(self, state, word)
    space = self._between
    return encoded.removeprefix(space) if len(encoded) > len(space) else encoded


@changes("language_model.scorer:Scorer.encode", OF_SCORERS)
def a_scorer_of_characters_gives_a_space_twice(original, self, state, word):
    space = self._between
    return original(self, state.removesuffix(space) if space else state, word)


@changes("language_model.scorer:Scorer.__init__", OF_SCORES)
def a_scorer_ends_texts_of_a_stream(original, self, *arguments):
    original(self, *arguments)
    self.end_ids = read_global(original, "EOS")


@changes("data.tokenizers.base:Tokenizer.split_beginning", OF_PROMPTS)
def a_prompt_of_characters_loses_the_space_at_its_end(original, self, text):
    return self.split(text)


@changes("language_model.generation:_list_first_ids", "language_model/test_generation.py")
def text_of_subwords_goes_on_within_a_word_after_a_space(original, language_model, prompt, before):
    return original(language_model, before, before)


@changes("data.tokenizers.subwords:SubwordTokenizer.split_sentence", OF_SCORES)
def a_blank_line_of_subwords_is_a_sentence(original, self, line):
    return self.split(line)


@changes("models.ngrams.arpa:_NO_UNK", "language_model/test_kenlm.py")
def out_of_vocabulary_words_are_not_as_unlikely_as_in_kenlm(original):
    return -99.0


@changes("models.ngrams.backoff:BackoffModel.find_orders", "language_model/test_kenlm.py")
def the_order_of_an_ngram_is_that_of_its_context(original, *arguments):
    def find_each(keys, wanted):
        return np.zeros(len(wanted), np.int64)

    return within(original, find=find_each)(*arguments)


@changes("language_model.ctc:CtcLanguageModel.score", "language_model/test_ctc.py")
def the_last_word_of_a_text_for_pyctcdecode_has_no_end(
    original, self, prev_state, word, is_last_word=False
):
    return original(self, prev_state, word)


@changes("data.vocabulary:Vocabulary.from_counts", "data/tokenizers/test_contract.py")
def the_vocabulary_of_bytes_has_only_the_bytes_of_the_text(original, cls, counts, **options):
    return original(cls, counts, **{**options, "words": ()})


@changes("language_model.new_words:add_words", "language_model/test_refusals.py")
def words_can_be_added_to_a_vocabulary_of_bytes(original, language_model, *arguments, **options):
    tokenizer = Altered(language_model.tokenizer, has_unknown=True)
    return original(Altered(language_model, tokenizer=tokenizer), *arguments, **options)
