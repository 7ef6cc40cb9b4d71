// Run a corpus of `xverify vectors` on a JavaScript kernel: node run_vectors.js CORPUS/vectors.jsonl ./my_kernel.js
//
// The kernel's module exports kernel(inputs, attributes, output). `inputs` holds x, scale and perhaps zero_point by name, each as
// {dtype, shape, codes}; `output` is {dtype, shape}, or undefined if the call must be refused. The kernel returns the codes of the
// result. An exception refuses the call; an error whose name is "NotImplementedError" skips it.
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");

const NAN = { float32: [0x7fffffff, 0x7f800000], float16: [0x7fff, 0x7c00], bfloat16: [0x7fff, 0x7f80] };

function codesOf(text, dtype) {
  const bits = Number(dtype.match(/\d+/)[0]);
  const digits = bits <= 4 ? 1 : Math.max(2, bits / 4);
  return Array.from({ length: text.length / digits }, (_, i) => parseInt(text.substr(i * digits, digits), 16));
}

function same(got, legal, dtype) {
  const [mask, infinity] = NAN[dtype];
  return got === legal || ((got & mask) > infinity && (legal & mask) > infinity);
}

// "right" or "skipped", or a sentence on the first wrong value.
function check(call, kernel) {
  const inputs = {};
  for (const t of call.inputs) inputs[t.name] = { dtype: t.dtype, shape: t.shape, codes: codesOf(t.codes, t.dtype) };
  let got;
  try {
    got = kernel(inputs, call.attributes, call.output);
  } catch (error) {
    if (error.name === "NotImplementedError") return "skipped";
    return call.refused ? "right" : `the kernel refused a legal call: ${error}`;
  }
  if (call.refused) return `the kernel answered a call that ${call.refused[0].clause} forbids`;
  const { dtype, shape } = call.output;
  const size = shape.reduce((a, b) => a * b, 1);
  if (got.length !== size) return `got ${got.length} values, legal ${size}`;
  let alive = call.legal.map((text) => codesOf(text, dtype)); // the results that give all values so far
  for (let i = 0; i < size; i++) {
    const left = alive.filter((codes) => same(got[i], codes[i], dtype));
    if (!left.length)
      return `index ${i} got ${got[i].toString(16)} legal ${alive.map((codes) => codes[i].toString(16)).join(" or ")}`;
    alive = left;
  }
  return "right";
}

(async () => {
  const counts = { right: 0, skipped: 0 };
  const { kernel } = require(path.resolve(process.argv[3]));
  for await (const line of readline.createInterface({ input: fs.createReadStream(process.argv[2]) })) {
    const call = JSON.parse(line);
    const word = check(call, kernel);
    if (!(word in counts)) return console.log(`WRONG call ${call.id}: ${word}`), (process.exitCode = 1);
    counts[word]++;
  }
  console.log(`${counts.right} calls right, ${counts.skipped} calls skipped`);
  process.exitCode = counts.right ? 0 : 1;
})();
