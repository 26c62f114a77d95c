"""Serving: signatures, blocks of a batch, text in the graph, versions, LiteRT and ONNX."""

from pathlib import Path

import tensorflow as tf

from tests.mutation.mutants import Altered, at_call, changes, constant, first, within

OF_GRAPHS = "serving/test_graphs.py"
OF_SIGNATURES = "serving/test_signatures.py"
OF_TEXTS = "serving/test_text.py"
OF_SAVED_MODELS = "serving/test_saved_model.py"
TOP_K = "serving.graph_model:find_top_k"
ENCODE_ENDS = "data.tokenizers.token_graph:TokenGraph.encode_ends"
CHECK_IDS = "serving.signatures:ServedFunction.check_ids"


@changes(TOP_K, OF_GRAPHS)
def equal_probabilities_are_not_listed_in_the_order_of_ids(original, *arguments):
    return within(original, tf=Altered(tf, sort=first))(*arguments)


@changes(TOP_K, OF_GRAPHS)
def the_columns_after_the_last_whole_block_are_not_searched(original, *arguments):
    def hide_the_rest(values, axis):
        *candidates, rest = values
        return tf.concat([*candidates, tf.fill(tf.shape(rest), rest.dtype.min)], axis=axis)

    concat = at_call(1, hide_the_rest, tf.concat)
    return within(original, tf=Altered(tf, concat=concat))(*arguments)


@changes("serving.graph_model:compute_in_blocks", OF_SIGNATURES)
def the_last_block_of_a_batch_is_left_out(original, compute, num_rows, block_rows, specs):
    return original(compute, num_rows // block_rows * block_rows, block_rows, specs)


@changes("serving.graph_model:combine_log_probs", OF_GRAPHS)
def a_word_of_probability_0_in_all_components_makes_a_mixture_nan(original, *arguments):
    return within(original, _LEAST=float("-inf"))(*arguments)


@changes("serving.graphs:NetworkGraph.__init__", OF_SAVED_MODELS)
def the_variables_of_training_are_exported(original, self, model, *arguments):
    original(self, model, *arguments)
    self.model = model


@changes("serving.signatures:PredictNext.__init__", OF_SIGNATURES)
def special_tokens_are_predicted(original, self, *arguments):
    original(self, *arguments)
    self.first = 0


@changes("serving.signatures:Score.compute", OF_SIGNATURES)
def a_text_at_the_limit_has_no_score(original, self, sentences):
    return original(Altered(self, max_text_length=self.max_text_length - 1), sentences)


@changes(CHECK_IDS, OF_SIGNATURES)
def ids_below_0_have_a_probability(original, self, ids):
    return original(self, tf.maximum(ids, 0))


@changes(CHECK_IDS, OF_SIGNATURES)
def one_id_out_of_range_makes_the_whole_batch_nan(original, self, ids):
    fits, clipped = original(self, ids)
    return tf.fill(tf.shape(fits), tf.reduce_all(fits)), clipped


@changes("serving.text:TextGraph.ngrams", OF_SIGNATURES, OF_TEXTS)
def the_end_of_a_blank_text_counts_as_a_token(original, *arguments):
    def cast_to_ones(values, dtype):
        return tf.ones_like(tf.cast(values, dtype))

    return within(original, tf=Altered(tf, cast=cast_to_ones))(*arguments)


@changes("serving.text:TextGraph.contexts", OF_TEXTS)
def a_context_with_too_few_tokens_is_not_read_further(original, *arguments):
    def keep_first(has_more, read_more, values):
        return values

    return within(original, tf=Altered(tf, while_loop=keep_first))(*arguments)


@changes("serving.text:TextGraph._take_last", OF_TEXTS)
def contexts_are_padded_as_in_running_text(original, *arguments):
    return within(original, padding_id=constant(0))(*arguments)


@changes("serving.text:TextGraph.__init__", OF_TEXTS)
def special_tokens_in_a_text_keep_their_meaning(original, *arguments):
    return within(original, SPECIALS=())(*arguments)


@changes(ENCODE_ENDS, OF_TEXTS)
def a_served_prompt_of_characters_loses_the_space_at_its_end(original, self, *arguments):
    return original(Altered(self, _append_space=first), *arguments)


@changes(ENCODE_ENDS, OF_TEXTS)
def the_context_of_a_long_text_begins_within_a_token(original, self, ends, is_cut):
    return original(self, ends, tf.zeros_like(is_cut))


@changes("data.tokenizers.subword_graph:SubwordGraph.encode_sentences", OF_TEXTS)
def a_served_line_of_subwords_keeps_its_line_end(original, self, lines):
    return self.encode(lines)


@changes("serving.saved_model:_rename_to_next_version", OF_SAVED_MODELS)
def version_numbers_are_reused(original, directory):
    return within(original, max=constant(0))(directory)


@changes("serving.saved_model:_STALE_SECONDS", OF_SAVED_MODELS)
def a_running_export_is_removed(original):
    return -1


class Private(type(Path())):
    """A path whose rights stay as they are."""

    def chmod(self, *_, **__):
        pass


@changes("serving.saved_model:_temporary_directory", OF_SAVED_MODELS)
def another_user_cannot_read_a_version(original, parent):
    return within(original, Path=Private)(parent)


@changes("serving.saved_model:_holds_other_files", "serving/test_refusals.py")
def a_directory_with_other_files_is_exported_to(original, *arguments):
    return within(original, any=constant(False))(*arguments)


@changes("serving.on_device:TextScores.compute", "serving/test_on_device.py")
def a_file_for_devices_does_not_score_the_end_of_a_text(original, self, *arguments):
    return original(Altered(self, predicts_end=False), *arguments)
