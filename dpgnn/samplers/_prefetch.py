"""Ask for a cache line before it is needed: random access to large arrays is what samplers wait for.

It changes no result.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Start to load array[index] of a one-dimensional array; an index outside is harmless."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        # for reading, keep in all caches, data
        builder.call(function, [place, *(ir.Constant(word, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


prefetch: Any = intrinsic(_prefetch)
