/* Load a SavedModel with TensorFlow's C API, as TF Serving does, and run it on one text.

   run_saved_model DIRECTORY INPUT WORDS PROBABILITIES TEXT

   INPUT, WORDS and PROBABILITIES are tensor names, such as "serving_default_contexts:0". Prints one line for each
   word: probability, tab, word. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

static void check(TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
  }
}

static TF_Output find_output(TF_Graph *graph, const char *name) {
  char operation[512];
  const char *colon = strrchr(name, ':');
  snprintf(operation, sizeof operation, "%.*s", (int)(colon - name), name);
  TF_Output output = {TF_GraphOperationByName(graph, operation), atoi(colon + 1)};
  if (output.oper == NULL) {
    fprintf(stderr, "no operation %s\n", operation);
    exit(1);
  }
  return output;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  TF_Status *status = TF_NewStatus();
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, "load");

  const int64_t shape[] = {1};
  TF_Tensor *text = TF_AllocateTensor(TF_STRING, shape, 1, sizeof(TF_TString));
  TF_TString *string = TF_TensorData(text);
  TF_TString_Init(string);
  TF_TString_Copy(string, argv[5], strlen(argv[5]));

  TF_Output input = find_output(graph, argv[2]);
  TF_Output outputs[] = {find_output(graph, argv[3]), find_output(graph, argv[4])};
  TF_Tensor *results[2];
  TF_SessionRun(session, NULL, &input, &text, 1, outputs, results, 2, NULL, 0, NULL, status);
  check(status, "run");

  const TF_TString *words = TF_TensorData(results[0]);
  const float *probabilities = TF_TensorData(results[1]);
  for (int64_t i = 0; i < TF_Dim(results[0], 1); i++)
    printf("%.6f\t%.*s\n", probabilities[i], (int)TF_TString_GetSize(&words[i]), TF_TString_GetDataPointer(&words[i]));
  TF_CloseSession(session, status);
  return 0;
}
