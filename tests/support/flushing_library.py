"""A C library that makes the processor flush subnormals."""

from __future__ import annotations

SOURCE = """
#if defined(__x86_64__)
#include <immintrin.h>
void flush_subnormals(void) { _mm_setcsr(_mm_getcsr() | 0x8040u); }
unsigned long control(void) { return _mm_getcsr(); }
#else
void flush_subnormals(void) {
    unsigned long value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    __asm__ volatile("msr fpcr, %0" : : "r"(value | (1ul << 24)));
}
unsigned long control(void) { unsigned long value; __asm__ volatile("mrs %0, fpcr" : "=r"(value)); return value; }
#endif
"""
