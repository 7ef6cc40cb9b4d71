//! A Rust kernel for ai.onnx/DequantizeLinear-25: integers of 8 and 16 bits, float32 scales, every granularity.
//!
//! It needs no crates. Its functions have the C ABI of oracles/native/xverify_kernel.h:
//!
//!     rustc --edition 2021 -O -C panic=abort --crate-type cdylib -o rust_kernel.so examples/rust_kernel.rs
//!     xverify gate --kernel ./rust_kernel.so:dequantize --x-dtypes int8,uint8,int16,uint16 --scale-dtypes float32

use std::slice::from_raw_parts;

#[repr(C)]
pub struct DLDevice {
    device_type: i32,
    device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
pub struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// A tensor of DLPack. Strides count elements; the first element is `byte_offset` bytes after `data`.
#[repr(C)]
pub struct DLTensor {
    data: *mut u8,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

const DONE: i32 = 0;
const REFUSED: i32 = 1;
const UNSUPPORTED: i32 = 2;
const NO_AXIS: i64 = i64::MIN;

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT32: DLDataType = DLDataType { code: 2, bits: 32, lanes: 1 };

impl DLTensor {
    fn shape(&self) -> &[i64] {
        // A scalar may have no array of extents.
        if self.ndim == 0 { &[] } else { unsafe { from_raw_parts(self.shape, self.ndim as usize) } }
    }

    fn strides(&self) -> &[i64] {
        if self.ndim == 0 { &[] } else { unsafe { from_raw_parts(self.strides, self.ndim as usize) } }
    }

    /// The address of the first element.
    fn first<T>(&self) -> *mut T {
        self.data.wrapping_add(self.byte_offset as usize) as *mut T
    }
}

/// Where the scale and the zero point of an element are.
enum Granularity {
    PerTensor,
    PerAxis(usize),
    Blocked(usize, i64),
}

impl Granularity {
    /// The granularity of a call; None if the specification forbids the call.
    fn of(x: &DLTensor, scale: &DLTensor, axis: i64, block_size: i64) -> Option<Granularity> {
        if block_size < 0 {
            return None;
        }
        if scale.ndim == 0 {
            return Some(Granularity::PerTensor); // the axis is ignored, also one that is out of range
        }
        let rank = i64::from(x.ndim);
        let axis = if axis == NO_AXIS { 1 } else { axis };
        if axis < -rank || axis >= rank {
            return None;
        }
        let axis = axis.rem_euclid(rank) as usize;
        let extent = x.shape()[axis];
        if block_size > 0 && scale.ndim == x.ndim {
            let mut blocks = x.shape().to_vec();
            blocks[axis] = extent / block_size + i64::from(extent % block_size != 0); // a sum could overflow
            return (scale.shape() == blocks).then_some(Granularity::Blocked(axis, block_size));
        }
        (scale.shape() == [extent]).then_some(Granularity::PerAxis(axis))
    }

    /// The offset in elements of the parameter for the element of x with this index.
    fn offset(&self, parameter: &DLTensor, index: &[i64]) -> isize {
        let strides = parameter.strides();
        match *self {
            Granularity::PerTensor => 0,
            Granularity::PerAxis(axis) => (index[axis] * strides[0]) as isize,
            Granularity::Blocked(axis, size) => index
                .iter()
                .zip(strides)
                .enumerate()
                .map(|(d, (i, stride))| if d == axis { i / size * stride } else { i * stride })
                .sum::<i64>() as isize,
        }
    }
}

fn run<T: Copy + Into<i32>>(x: &DLTensor, scale: &DLTensor, zero_point: Option<&DLTensor>, granularity: &Granularity, y: &DLTensor) {
    let shape = x.shape();
    let count: i64 = shape.iter().product();
    let mut index = vec![0i64; shape.len()];
    let (codes, scales, out) = (x.first::<T>(), scale.first::<f32>(), y.first::<f32>());
    for i in 0..count {
        let at: i64 = index.iter().zip(x.strides()).map(|(i, stride)| i * stride).sum();
        // Safety: the offsets lie inside the tensors, and y is compact and has the shape of x.
        unsafe {
            let mut difference: i32 = (*codes.offset(at as isize)).into();
            if let Some(zero_point) = zero_point {
                difference -= (*zero_point.first::<T>().offset(granularity.offset(zero_point, &index))).into();
            }
            // The difference has at most 17 bits, so float32 holds it and only the product is rounded.
            *out.offset(i as isize) = difference as f32 * *scales.offset(granularity.offset(scale, &index));
        }
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

/// # Safety
/// The pointers are valid, as xverify_kernel.h promises. `zero_point` may be null.
#[no_mangle]
pub unsafe extern "C" fn dequantize(
    x: *const DLTensor,
    scale: *const DLTensor,
    zero_point: *const DLTensor,
    axis: i64,
    block_size: i64,
    y: *mut DLTensor,
) -> i32 {
    let (x, scale, zero_point, y) = (&*x, &*scale, zero_point.as_ref(), &*y);
    let Some(granularity) = Granularity::of(x, scale, axis, block_size) else {
        return REFUSED;
    };
    if zero_point.is_some_and(|z| z.dtype != x.dtype || z.shape() != scale.shape()) {
        return REFUSED;
    }
    if scale.dtype != FLOAT32 || y.dtype != FLOAT32 {
        return UNSUPPORTED;
    }
    match (x.dtype.code, x.dtype.bits) {
        (INT, 8) => run::<i8>(x, scale, zero_point, &granularity, y),
        (UINT, 8) => run::<u8>(x, scale, zero_point, &granularity, y),
        (INT, 16) => run::<i16>(x, scale, zero_point, &granularity, y),
        (UINT, 16) => run::<u16>(x, scale, zero_point, &granularity, y),
        _ => return UNSUPPORTED,
    }
    DONE
}
