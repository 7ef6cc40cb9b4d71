/* Run a corpus of `xverify vectors` on a C kernel: cc run_vectors.c my_kernel.c -o run && ./run CORPUS/vectors.jsonl */
#include <inttypes.h>
#include <stdio.h>
#include "run_vectors.h"

static uint64_t code_at(const char *text, const char *dtype, long i) {
  int digits = bits_of(dtype) <= 4 ? 1 : 2 * bytes_of(dtype);
  char number[17] = "";
  return memcpy(number, text + i * digits, digits), strtoull(number, NULL, 16);
}
static char *read_head(char *at, tensor *t) { /* from "dtype":"x","shape":[2,3] */
  sscanf(at = strstr(at, "\"dtype\":\""), "\"dtype\":\"%15[^\"]", t->dtype);
  for (at = strchr(at, '[') + 1, t->size = 1; *at != ']'; at += *at == ',')
    t->size *= t->shape[t->rank++] = strtol(at, &at, 10);
  return at;
}
static int is_nan(uint64_t code, const char *dtype) {
  return bits_of(dtype) == 32 ? (code & 0x7fffffff) > 0x7f800000 : (code & 0x7fff) > (dtype[0] == 'b' ? 0x7f80 : 0x7c00);
}
int main(int count, char **words) {
  FILE *file = count > 1 ? fopen(words[1], "r") : NULL;
  char *line = NULL, id[17] = "", *text[64];
  size_t room = 0, right = 0, skipped = 0;
  if (!file) return fprintf(stderr, "usage: %s CORPUS/vectors.jsonl\n", words[0]), 2;
  while (getline(&line, &room, file) > 0) {
    tensor in[4] = {0}, y = {0};
    int inputs = 0, results = 0, alive, answer;
    char *attributes = strstr(line, "\"attributes\":"), *at = strstr(line, ",\"inputs\":["), *refused = strstr(line, "\"refused\":");
    if (!attributes || !at || !strstr(line, "}\n")) fprintf(stderr, "%s is not a whole vectors.jsonl\n", words[1]), exit(2);
    sscanf(line, "{\"id\":\"%16[^\"]", id), *at++ = 0;
    for (tensor *t = in; t == in || *at == ','; t++, inputs++) {
      sscanf(at = strstr(at, "\"name\":\""), "\"name\":\"%15[^\"]", t->name);
      at = strstr(read_head(at, t), "\"codes\":\"") + 9, t->data = calloc(t->size + 1, bytes_of(t->dtype));
      for (long i = 0; i < t->size; i++) {
        uint64_t code = code_at(at, t->dtype, i);
        memcpy((char *)t->data + i * bytes_of(t->dtype), &code, bytes_of(t->dtype));
      }
      at = strchr(at, '"') + 2;
    }
    if (!refused) at = strstr(read_head(strstr(at, "\"output\":"), &y), "\"legal\":[") + 8;
    y.data = calloc((refused ? in[0].size : y.size) + 1, 8), answer = kernel(in, inputs, attributes, &y);
    if (answer != NOT_IMPLEMENTED && (answer != DONE) != !!refused)
      printf("WRONG call %s: %s\n", id, refused ? "answered, must be refused" : "refused a legal call"), exit(1);
    for (; !refused && *at != ']'; at = strchr(at + 2, '"') + 1) text[results++] = at + 2;
    for (long i = 0; answer == DONE && i < y.size; i++) {
      uint64_t got = 0;
      memcpy(&got, (char *)y.data + i * bytes_of(y.dtype), bytes_of(y.dtype)), alive = 0;
      for (int k = 0; k < results; k++) { /* text[k] stays while this result gives all values so far */
        uint64_t legal = code_at(text[k], y.dtype, i);
        if (got == legal || (is_nan(got, y.dtype) && is_nan(legal, y.dtype))) text[alive++] = text[k];
      }
      if (!alive) printf("WRONG call %s: index %ld got %" PRIx64 " legal", id, i, got);
      for (int k = 0; k < results && !alive; k++) printf("%s %" PRIx64, k ? " or" : "", code_at(text[k], y.dtype, i));
      if (!(results = alive)) puts(""), exit(1);
    }
    skipped += answer == NOT_IMPLEMENTED, right += answer != NOT_IMPLEMENTED, free(y.data);
    while (inputs) free(in[--inputs].data);
  }
  return printf("%zu calls right, %zu calls skipped\n", right, skipped), free(line), fclose(file), !right;
}
