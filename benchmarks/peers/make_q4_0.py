"""The same model in llama.cpp's own best format of like size: Q4_0, which it repacks for the
processor.

    .peers/llama/bin/python benchmarks/peers/make_q4_0.py MODEL.gguf OUT.gguf

Quantised again from the given file by llama.cpp itself: good for speed, not for quality.
"""

from __future__ import annotations

import ctypes
import sys

import llama_cpp


def main() -> int:
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    parameters.allow_requantize = True
    source, target = (argument.encode() for argument in sys.argv[1:3])
    return int(llama_cpp.llama_model_quantize(source, target, ctypes.byref(parameters)))


if __name__ == "__main__":
    sys.exit(main())
