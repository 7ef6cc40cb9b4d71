import cupy
import numpy as np

zero = np.float32(-0.0)
filled, assigned = cupy.empty(2, "f4"), cupy.empty(2, "f4")
filled.fill(zero)
assigned[...] = zero
for array in (cupy.asarray(zero), filled, assigned, cupy.full(2, zero), cupy.asarray([zero])):
    print(np.signbit(array.get()))
