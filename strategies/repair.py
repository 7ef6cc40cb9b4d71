"""Repair of calls: change one property at a time, until an edition allows the call and limits hold.

A domain lists types, but `judge` of an edition may demand more: blocks of 32 only, the last axis only, no zero point. The form
of a call holds the properties that a repair may change. The search starts at a simple form that is accepted. It gives each
property its wanted value, one by one, and keeps the value if the call stays accepted. The remaining changes are remembered, so
that the next call of the same form costs one attempt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

import numpy as np

from xverify.arithmetic.linear_operands import ceil_div, has_nonzero
from xverify.contracts.model import Contract, Domain
from xverify.core.call import Attribute, Call, Tensor
from xverify.core.dtypes import INTEGERS, encode, is_float
from xverify.strategies import values
from xverify.strategies.limits import SIZES, CallLimits, axis_of, block_size_of, granularity_of, output_type_of
from xverify.strategies.structures import laid_out

BLOCKS = (32, 16, 64, 128, 256, 8, 4, 2, 1, 512, 1024)
"""Block sizes to try, the commonest first."""

RANKS = (2, 1, 3, 4, 0, 5, 6)
"""Ranks to try."""

FACTORS = (32, 64, 16, 128, 256, 8, 4, 2)
"""Factors of the last extent to try."""

CAPS = (65536, 4096, 1024, 256, 64, 16, 4, 2, 1)
"""Numbers of elements to cut a tensor to."""

MOST_KEPT = 12
"""Number of remembered changes for each granularity."""

MOST_FAILURES = 4
"""Number of full searches without a result for each granularity. Later searches try only the remembered changes."""

MOST_TRIES, FEW_TRIES = 4000, 400
"""Numbers of simple forms that a full search and a short one try."""

MOST_FORMS = 20_000
"""Number of forms whose changes are remembered."""

DroppedCell = tuple[str, str, str, str]
"""Types of x and scale, output type and granularity."""


@dataclass(frozen=True)
class Form:
    """The properties of a call that a repair may change."""

    shape: tuple[int, ...]
    granularity: str
    """"per_tensor", "per_axis" or "blocked"; "" for a range formula."""
    axis: int
    """The axis of the parameters counted from the back; 0 if there is none."""
    axis_form: str
    """The form of the attribute axis: "absent", "front", "back", or "as it is"."""
    block_size: int
    zero_point: str
    """The type of the zero point; "" if it is absent."""
    zero: bool
    """True if the zero point becomes 0."""
    output: str
    """The attribute output_dtype; "" if it is absent."""
    one_element: bool
    """True if a per-tensor parameter has shape (1,) instead of ()."""
    layouts: tuple[str, ...]
    """The layouts of the tensors, in their order in the call."""
    scales: str = ""
    """"positive" or "ordinary" if scales change: to positive numbers, or to 0.5."""

    @property
    def from_front(self) -> int:
        """The axis counted from the front."""
        return self.axis + len(self.shape)


@dataclass(frozen=True)
class Change:
    """A change of one property of a form."""

    name: str
    value: Any

    def of(self, form: Form) -> Form:
        """The changed form."""
        return _CHANGES[self.name](form, self.value)


def _with_shape(form: Form, shape: tuple[int, ...]) -> Form:
    axis = form.axis if form.axis >= -len(shape) else -len(shape)
    return replace(form, shape=shape, axis=axis)


def _with_rank(form: Form, rank: int) -> Form:
    """Fold leading extents into one, or add extents of 1 in front. The axis keeps its extent where it can."""
    shape = form.shape
    if rank == 0:
        return _with_shape(form, ())
    if len(shape) < rank:
        return _with_shape(form, (1,) * (rank - len(shape)) + shape)
    cut = len(shape) - rank + 1
    return _with_shape(form, (math.prod(shape[:cut]), *shape[cut:]))


def _filled(form: Form, value: bool) -> Form:
    return replace(form, shape=tuple(max(extent, 1) for extent in form.shape))


def _multiples(form: Form, factors: tuple[bool, int]) -> Form:
    """Round the extent of the axis up to whole blocks, and the last extent up to a multiple."""
    whole, factor = factors
    shape = list(form.shape)
    if whole and form.granularity == "blocked" and shape:
        shape[form.from_front] = max(1, ceil_div(shape[form.from_front], form.block_size)) * form.block_size
    if shape:
        step = factor if not whole or form.axis != -1 else math.lcm(factor, max(form.block_size, 1))
        shape[-1] = ceil_div(shape[-1], step) * step
    return replace(form, shape=tuple(shape))


def _one_block(form: Form, value: bool) -> Form:
    """Cut the axis to one block at most, or lengthen it to two."""
    if form.granularity != "blocked" or not form.shape:
        return form
    shape, size = list(form.shape), form.block_size
    extent = shape[form.from_front]
    shape[form.from_front] = min(extent, size) if value else extent if extent > size else extent + size
    return replace(form, shape=tuple(shape))


def _capped(form: Form, most: int) -> Form:
    """Shorten extents by whole blocks, the first ones first, until the tensor is small enough."""
    shape = list(form.shape)
    for index, extent in enumerate(shape):
        rest = math.prod(shape) // max(extent, 1)
        if math.prod(shape) <= most:
            break
        shorter = max(1, most // max(rest, 1))
        if form.granularity == "blocked" and index == form.from_front and shorter >= form.block_size:
            shorter -= shorter % form.block_size
        shape[index] = min(extent, shorter)
    return replace(form, shape=tuple(shape))


def _with_remainder(form: Form, value: bool) -> Form:
    """Shorten the axis, so that its last block is partial."""
    if form.granularity != "blocked" or not form.shape or form.block_size < 2:
        return form
    shape, size = list(form.shape), form.block_size
    whole = ceil_div(max(shape[form.from_front], 1), size) * size
    shape[form.from_front] = whole - 1
    return replace(form, shape=tuple(shape))


def _with_elements(form: Form, most: int) -> Form:
    """Shorten or lengthen extents to nearly that many elements; -1 for more than any of `SIZES`."""
    if math.prod(form.shape) >= most >= 0 or not form.shape:
        return _capped(form, most)
    rest = math.prod(form.shape[1:])
    first = (most if most >= 0 else SIZES[-1] + rest) // max(rest, 1)
    if form.granularity == "blocked" and form.from_front == 0:
        first = max(1, first // form.block_size) * form.block_size
    return replace(form, shape=(first, *form.shape[1:]))


def _with_last_factor(form: Form, factor: int) -> Form:
    """Make the last extent an odd multiple of a power of two."""
    if not form.shape:
        return form
    return replace(form, shape=(*form.shape[:-1], factor * (max(1, form.shape[-1] // factor) | 1)))


def _with_axis(form: Form, axis: int) -> Form:
    """Set the axis: a negative one counts from the back, another from the front."""
    rank = len(form.shape)
    if not rank or form.granularity in ("", "per_tensor"):
        return form
    return replace(form, axis=max(axis, -rank) if axis < 0 else min(axis, rank - 1) - rank)


_CHANGES: Mapping[str, Callable[[Form, Any], Form]] = {
    "shape": _with_shape,
    "rank": _with_rank,
    "filled": _filled,
    "one block": _one_block,
    "multiples": _multiples,
    "elements": _capped,
    "remainder": _with_remainder,
    "size": _with_elements,
    "last factor": _with_last_factor,
    "axis": _with_axis,
    "axis form": lambda form, value: replace(form, axis_form=value),
    "block size": lambda form, value: replace(form, block_size=value) if form.granularity == "blocked" else form,
    "zero point": lambda form, value: replace(form, zero_point=value),
    "zero": lambda form, value: replace(form, zero=value),
    "output": lambda form, value: replace(form, output=value),
    "one element": lambda form, value: replace(form, one_element=value),
    "layouts": lambda form, value: replace(form, layouts=tuple("C" for _ in form.layouts)),
    "scales": lambda form, value: replace(form, scales=value),
}
"""The changes of a form by the name of the property. `_ORDER` is the order in which they apply."""

_ORDER = (
    "shape", "rank", "filled", "axis", "axis form", "block size", "one block", "multiples", "elements", "remainder", "size",
    "last factor", "zero point", "zero", "output", "one element", "layouts", "scales",
)  # fmt: skip

_RELAXED = (
    "layouts", "scales", "zero", "zero point", "output", "one element", "axis form", "elements", "block size", "axis",
    "rank", "filled", "one block", "multiples",
)  # fmt: skip
"""The order in which properties get the value of the wanted form."""

Changes = tuple[Change, ...]


def applied(changes: Sequence[Change], form: Form) -> Form:
    """The form after some changes, one of each name."""
    by_name = {change.name: change for change in changes}
    for name in _ORDER:
        if name in by_name:
            form = by_name[name].of(form)
    return form


@dataclass(eq=False)
class Repair:
    """The repair of calls for an edition and for limits.

    It remembers changes that helped. So the order of calls decides which of several possible changes a call gets.
    """

    contract: Contract
    limits: CallLimits = field(default_factory=CallLimits)

    # Hypothesis shows the fields of a strategy's arguments that `__init__` takes. A repair remembers thousands of forms.
    unrepaired: Counter[DroppedCell] = field(default_factory=Counter, init=False)
    """The number of calls that could not be repaired, by cell."""

    _helped: dict[str, list[Changes]] = field(default_factory=dict, init=False)
    _of_form: dict[tuple[object, ...], Changes | None] = field(default_factory=dict, init=False)
    _failures: Counter[str] = field(default_factory=Counter, init=False)
    _failed: set[tuple[str, str, str]] = field(default_factory=set, init=False)

    def accepts(self, call: Call) -> bool:
        """True if the edition allows the call and the limits hold."""
        return self.contract.judge(call).verdict == "allowed" and (not self.limits or self.limits.holds(call))

    def __call__(self, call: Call) -> Call | None:
        """The call itself if it is accepted, else the nearest accepted call that is found, or None."""
        if self.accepts(call):
            return call
        domain = self.contract.domain
        form = form_of(call, domain)
        key = (form, call.data.dtype, _scale_dtype(call))
        if key not in self._of_form:
            if len(self._of_form) > MOST_FORMS:
                self._of_form.clear()
            self._of_form[key] = self._search(call, form)
        changes = self._of_form[key]
        changed = None if changes is None else self._tried(call, form, changes)
        if changed is None and changes is not None:
            changes = self._search(call, form)  # The values of this call differ from those of the first of its form.
            changed = None if changes is None else self._tried(call, form, changes)
        if changed is None:
            self.unrepaired[cell_of(call)] += 1
        return changed

    def changed(self, call: Call, change: Change) -> Call | None:
        """The call with one change; None if it is not accepted."""
        return self._tried(call, form_of(call, self.contract.domain), (change,))

    def _tried(self, call: Call, form: Form, changes: Changes) -> Call | None:
        """The changed call if it is accepted."""
        try:
            changed = rendered(call, applied(changes, form), self.contract.domain)
            return changed if changed is not None and self.accepts(changed) else None
        except Exception:  # The judge of a user's edition may not expect such a call.
            return None

    def _search(self, call: Call, form: Form) -> Changes | None:
        kind = form.granularity
        helped = self._helped.setdefault(kind, [])
        for changes in helped:
            if self._tried(call, form, changes) is not None:
                return changes
        start = self._start(call, form)
        if start is None:
            return None
        changes = self._relaxed(call, form, start)
        if changes not in helped:
            helped.append(changes)
            helped.sort(key=len)  # Few changes keep more of the wanted form.
            del helped[MOST_KEPT:]
        return changes

    # -- a simple form that is accepted -------------------------------------------------------------------------

    def _start(self, call: Call, form: Form) -> Changes | None:
        """Changes to a simple accepted form."""
        # An edition may allow a granularity for a few types only, so each pair of types is searched once at least.
        types = call.data.dtype, call.tensors["scale"].dtype if "scale" in call.tensors else "", form.granularity
        if types in self._failed:
            return None
        tries = MOST_TRIES if self._failures[form.granularity] < MOST_FAILURES else FEW_TRIES
        for changes in islice(self._simple(call, form), tries):
            if self._tried(call, form, changes) is not None:
                return changes
        self._failures[form.granularity] += 1
        if self._failures[form.granularity] >= MOST_FAILURES:
            self._failed.add(types)
        return None

    def _simple(self, call: Call, form: Form) -> Iterator[Changes]:
        """Changes to simple forms, the commonest first."""
        domain, limits = self.contract.domain, self.limits
        blocked = form.granularity == "blocked"
        sizes = tuple(sorted(_numbers(limits, "block size"))) or BLOCKS if blocked else (0,)
        axes = tuple(_axes(limits)) or _AXES if form.granularity in ("per_axis", "blocked") else (-1,)
        zero_points = tuple(dict.fromkeys((form.zero_point, *_zero_points(call, domain))))
        outputs = tuple(dict.fromkeys((form.output, *_outputs(call, domain))))
        forms = _axis_forms(form, domain)
        ranks = tuple(sorted(value for value in limits.values("rank") if isinstance(value, int))) or RANKS[:4]
        plain = (Change("layouts", True), Change("scales", "ordinary"), Change("zero", True))
        extents_tried, one_element_tried = (2, 32), (False, True)
        for rank, size, axis in product(ranks, dict.fromkeys(sizes), dict.fromkeys(axes)):
            if not -rank <= axis < rank and form.granularity not in ("", "per_tensor"):
                continue
            for extent, zero_point, output, axis_form, one_element in product(
                extents_tried, zero_points, outputs, forms, one_element_tried
            ):
                if one_element and form.granularity != "per_tensor":
                    continue
                # Extents of 32 in ranks above 2 would be millions of elements, and half a minute for all tries.
                shape = [2] * (rank - 2) + [extent] * min(rank, 2)
                if blocked:
                    shape[axis] = 2 * size
                single = [max(size, 1) if blocked and i == axis % rank else 1 for i in range(rank)]
                for extents in dict.fromkeys((tuple(shape), tuple(single))):
                    yield (
                        Change("shape", extents), Change("axis", axis), Change("block size", size),
                        Change("zero point", zero_point), Change("output", output), Change("axis form", axis_form),
                        Change("one element", one_element), *plain,
                    )  # fmt: skip

    # -- from there to the wanted form --------------------------------------------------------------------------

    def _relaxed(self, call: Call, form: Form, start: Changes) -> Changes:
        """Fewer changes than those of the start: properties return to the wanted form one by one."""
        chosen = {change.name: change for change in start}
        shape = self._with_wanted_shape(call, form, chosen)
        if shape is not None:
            chosen = shape
        for name in _RELAXED:
            if name not in chosen:
                continue
            others = {key: change for key, change in chosen.items() if key != name}
            for value in (None, *self._alternatives(name, form, call)):
                trial = others if value is None else {**others, name: Change(name, value)}
                if self._tried(call, form, tuple(trial.values())) is not None:
                    chosen = trial
                    break
        return tuple(chosen[name] for name in _ORDER if name in chosen)

    def _with_wanted_shape(self, call: Call, form: Form, start: dict[str, Change]) -> dict[str, Change] | None:
        """The start with the wanted extents, made to fit, in place of its own."""
        others = {name: change for name, change in start.items() if name != "shape"}
        rank = len(start["shape"].value)
        size, least = form.block_size, (Change("rank", rank), Change("filled", True))
        if "block size" in others:
            size = others["block size"].value
        factors = dict.fromkeys((size or 1, *FACTORS))
        caps = (0, *(most for most in CAPS if most < math.prod(form.shape)))
        fits = [[Change("multiples", (True, factor))] for factor in (1, *factors)]
        fits += [[Change("one block", is_one), Change("multiples", (True, 1))] for is_one in (True, False)]
        for cap, fit in product(caps, fits):
            trial = {**others, **{change.name: change for change in (*least, *fit)}}
            if cap:
                trial["elements"] = Change("elements", cap)
            if self._tried(call, form, tuple(trial.values())) is not None:
                return trial
        return None

    def _alternatives(self, name: str, form: Form, call: Call) -> tuple[Any, ...]:
        """Values of a property to try before that of the start."""
        domain = self.contract.domain
        if name == "zero point":
            return _zero_points(call, domain)
        if name == "output":
            return _outputs(call, domain)
        if name == "axis form":
            return _axis_forms(form, domain)
        if name == "rank":
            wanted = len(form.shape)
            return tuple(sorted(RANKS, key=lambda rank: (abs(rank - wanted), rank)))
        if name == "multiples":
            return tuple((whole, factor) for whole in (False, True) for factor in sorted((1, *FACTORS)))[1:]
        if name == "block size":
            near = sorted((*_numbers(self.limits, "block size"), *BLOCKS), key=lambda size: abs(size - form.block_size))
            return tuple(dict.fromkeys(near))
        if name == "axis":
            near = sorted((*_axes(self.limits), *_AXES), key=lambda axis: abs(axis - form.axis))
            return tuple(dict.fromkeys(near))
        return ("positive",) if name == "scales" else ()


_AXES = (-1, 0, 1, -2)


def _numbers(limits: CallLimits, name: str) -> list[int]:
    return [value for value in limits.values(name) if isinstance(value, int) and value > 0]


def _axes(limits: CallLimits) -> list[int]:
    names = ("axis", "axis from the back", "axis from the front")
    return sorted(value for name in names for value in limits.values(name) if isinstance(value, int))


def _scale_dtype(call: Call) -> str:
    return call.tensors["scale"].dtype if "scale" in call.tensors else ""


def _zero_points(call: Call, domain: Domain) -> tuple[str, ...]:
    if domain.family == "range":
        return ()
    return (*domain.zero_points_for(call.data.dtype), *(() if domain.zero_point_required else ("",)))


def _outputs(call: Call, domain: Domain) -> tuple[str, ...]:
    """Values of the output attribute that give the same type: "" for no attribute, and the type itself."""
    scale, name = _scale_dtype(call), "output_dtype" if domain.family == "linear" else "dtype"
    wanted = str(call.attributes.get(name, scale or "float32"))
    absent = ("",) if wanted == (scale or "float32") else ()
    return (*absent, *((wanted,) if name in domain.attributes else ()))


def _axis_forms(form: Form, domain: Domain) -> tuple[str, ...]:
    if "axis" not in domain.attributes or form.granularity in ("", "per_tensor"):
        return ("absent",)
    return ("front", "back", "absent")


def cell_of(call: Call) -> DroppedCell:
    """The types and the granularity, or the mode, of a call, allowed or not."""
    scale, out = _scale_dtype(call), output_type_of(call)
    return call.data.dtype, scale, out, granularity_of(call) if scale else str(call.attributes.get("mode", ""))


# -- forms and calls --------------------------------------------------------------------------------------------


def form_of(call: Call, domain: Domain) -> Form:
    """The form of a call."""
    granularity = granularity_of(call)
    if "scale" in call.tensors and "qtype" in domain.attributes:
        granularity = "per_tensor" if call.attributes.get("qtype", "per_tensor") == "per_tensor" else "per_axis"
    axis, written = axis_of(call), call.attributes.get("axis")
    zero_point = call.tensors.get("zero_point")
    axis_form = "absent" if written is None else "back" if isinstance(written, int) and written < 0 else "front"
    name = "output_dtype" if domain.family == "linear" else "dtype"
    scale = call.tensors.get("scale")
    return Form(
        call.data.shape, granularity, 0 if axis is None else axis,
        axis_form if granularity in ("per_axis", "blocked") or axis_form == "absent" else "as it is",
        block_size_of(call) if granularity == "blocked" else 0,
        "" if zero_point is None else zero_point.dtype, False, str(call.attributes.get(name, "")),
        scale is not None and scale.shape == (1,), tuple(tensor.layout for tensor in call.tensors.values()),
    )  # fmt: skip


def parameter_shape(form: Form) -> tuple[int, ...]:
    """The shape of scale and zero point."""
    if form.granularity == "per_axis":
        return (form.shape[form.from_front],)
    if form.granularity == "blocked":
        return tuple(ceil_div(e, form.block_size) if i == form.from_front else e for i, e in enumerate(form.shape))
    return (1,) if form.one_element else ()


def rendered(call: Call, form: Form, domain: Domain) -> Call | None:
    """A call with the values of another in a form. None if there is no such call."""
    role = "x" if "x" in call.tensors else "input"
    layouts = dict(zip(call.tensors, form.layouts, strict=False))
    tensors = {role: _resized(call.data, form.shape, layouts[role])}
    attributes: dict[str, Attribute] = dict(call.attributes)
    if domain.family == "linear":
        if form.granularity in ("per_axis", "blocked") and not (form.axis and form.shape):
            return None
        if form.granularity == "blocked" and form.block_size < 1:
            return None
        shape = parameter_shape(form)
        tensors["scale"] = _scales(_resized(call.tensors["scale"], shape, layouts["scale"]), form.scales)
        if form.zero_point:
            tensors["zero_point"] = _zero_point_of(call, form, shape, layouts)
        _set_attributes(attributes, form, domain)
        name = "output_dtype"
    else:
        tensors |= {other: tensor for other, tensor in call.tensors.items() if other != role}
        name = "dtype"
    attributes.pop(name, None)
    if form.output:
        attributes[name] = form.output
    return replace(call, tensors=tensors, attributes=attributes)


def _set_attributes(attributes: dict[str, Attribute], form: Form, domain: Domain) -> None:
    if form.axis_form == "absent":
        attributes.pop("axis", None)
    elif form.axis_form != "as it is":
        attributes["axis"] = form.axis if form.axis_form == "back" else form.from_front
    attributes.pop("block_size", None)
    if form.granularity == "blocked":
        attributes["block_size"] = form.block_size


def _resized(tensor: Tensor, shape: tuple[int, ...], layout: str) -> Tensor:
    """A tensor in another shape: its codes, repeated or cut."""
    if tensor.shape == shape and tensor.layout == layout:
        return tensor
    codes = tensor.codes
    if tensor.shape != shape:
        # Not np.resize, which takes milliseconds to repeat a single code very often.
        indices = np.arange(math.prod(shape)) % max(codes.size, 1)
        codes = codes.reshape(-1)[indices].reshape(shape) if codes.size else np.zeros(shape, codes.dtype)
    return laid_out(tensor.dtype, codes, layout)


def _scales(scale: Tensor, change: str) -> Tensor:
    """Scales, made positive or ordinary if ``change`` says so."""
    if not change or not is_float(scale.dtype) or scale.dtype == "float8_e8m0fnu":
        return scale
    if change == "positive":
        codes = scale.codes & ((1 << (8 * scale.codes.dtype.itemsize - 1)) - 1)
        codes = codes.astype(scale.codes.dtype)
    else:
        codes = encode(scale.dtype, np.full(scale.shape, 0.5)).reshape(scale.shape)
    return Tensor(scale.dtype, codes, scale.layout)


def _zero_point_of(call: Call, form: Form, shape: tuple[int, ...], layouts: dict[str, str]) -> Tensor:
    old, layout = call.tensors.get("zero_point"), layouts.get("zero_point", "C")
    if form.zero or (form.zero_point in INTEGERS and old is not None and not _has_nonzero_codes(old)):
        return Tensor(form.zero_point, encode(form.zero_point, np.zeros(shape)).reshape(shape), layout)
    if old is not None and old.dtype == form.zero_point:
        return _resized(old, shape, layout)
    codes = values.zero_points(form.zero_point, shape, "random", np.random.default_rng(math.prod(shape)))
    return laid_out(form.zero_point, codes, layout)


def _has_nonzero_codes(tensor: Tensor) -> bool:
    """True if a zero point holds a number other than 0."""
    return has_nonzero(tensor) if tensor.dtype in INTEGERS else bool(tensor.codes.any())
