"""Backward passes around states, in chunks as kernels do them, with every product counted."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...evaluated import values
from ..check import Pairs, check
from .layer_kinds import STATE, WIDE, Counter, shape

Arrays = dict[str, Any]


def slopes_agree(out: Callable[[Arrays], Any], of: Arrays, given: Any, found: Arrays) -> None:
    """Gradients of sum(given * out) equal complex steps of the recurrence, at some elements."""
    for name, gradient in found.items():
        for at in range(0, gradient.size, max(gradient.size // 3, 1)):
            moved = of[name].astype(complex)
            moved.flat[at] += 1e-30j
            slope = np.sum(given * out({**of, name: moved})).imag / 1e-30
            np.testing.assert_allclose(gradient.flat[at], slope, rtol=1e-8, atol=1e-8)


def mamba2_backward(draw: np.random.Generator, chunk: int, tokens: int) -> float:
    """Operations, from inputs and gradients of outputs alone, as mamba_ssm's chunks have them.

    ssd_combined.py: _bmm_chunk_fwd, _chunk_state_fwd, _chunk_scan_bwd_dstates,
    _chunk_scan_chunk_state_bwd_dx, _chunk_state_bwd_db, _chunk_scan_bwd_dC, _chunk_scan_bwd_dcb,
    _bmm_chunk_bwd twice, _chunk_scan_bwd_ddAcs_stable.
    """
    h, p, g, n = STATE["H"], STATE["P"], STATE["G"], STATE["N"]
    x, given = draw.normal(size=(2, tokens, h, p))
    b, c = draw.normal(size=(2, tokens, g, n))
    logs = -draw.uniform(0.0, 0.2, size=(tokens, h))
    of, counter = {"x": x, "b": b, "c": c, "logs": logs}, Counter()
    found = {name: np.zeros_like(array) for name, array in of.items()}
    parts = [slice(start, start + chunk) for start in range(0, tokens, chunk)]
    scores = {(at, k): counter.times(c[part, k], b[part, k].T)
              for at, part in enumerate(parts) for k in range(g)}  # fmt: skip
    d_scores = {key: np.zeros((chunk, chunk)) for key in scores}
    for head in range(h):
        k, state, states = head * g // h, np.zeros((n, p)), []
        for part in parts:
            log = np.cumsum(logs[part, head])
            states.append(state)
            left = np.exp(log[-1] - log)[:, None] * b[part, k]
            state = np.exp(log[-1]) * state + counter.times(left.T, x[part, head])
        d_state = np.zeros((n, p))
        for at, part in reversed(list(enumerate(parts))):
            log = np.cumsum(logs[part, head])
            mask = np.tril(np.exp(log[:, None] - log[None, :]))
            past, left = np.exp(log)[:, None], np.exp(log[-1] - log)[:, None]
            b_, c_, x_, y = b[part, k], c[part, k], x[part, head], given[part, head]
            inside = counter.times((scores[at, k] * mask).T, y, share=0.5)
            found["x"][part, head] = inside + counter.times(left * b_, d_state)
            d_left = left * counter.times(x_, d_state.T)
            found["b"][part, k] += d_left
            d_past = past * counter.times(y, states[at].T)
            found["c"][part, k] += d_past
            d_scores[at, k] += counter.times(y, x_.T, share=0.5) * mask
            # the decays' gradient multiplies them once more
            change = counter.times(y, x_.T, share=0.5) * mask * scores[at, k]
            d_log = change.sum(1) - change.sum(0) + (d_past * c_).sum(1) - (d_left * b_).sum(1)
            d_log[-1] += (d_left * b_).sum() + np.exp(log[-1]) * np.sum(d_state * states[at])
            found["logs"][part, head] = np.cumsum(d_log[::-1])[::-1]
            d_state = np.exp(log[-1]) * d_state + counter.times((past * c_).T, y)
    for (at, k), change in d_scores.items():
        found["c"][parts[at], k] += counter.times(change, b[parts[at], k])
        found["b"][parts[at], k] += counter.times(change.T, c[parts[at], k])

    def out(of: Arrays) -> Any:
        state, rows = np.zeros((h, n, p), complex), []
        for t in range(tokens):
            keys = np.repeat(of["b"][t], h // g, axis=0)
            state = np.exp(of["logs"][t])[:, None, None] * state
            state = state + keys[:, :, None] * of["x"][t][:, None, :]
            rows.append(np.einsum("hn,hnp->hp", np.repeat(of["c"][t], h // g, axis=0), state))
        return np.array(rows)

    slopes_agree(out, of, given, found)
    return counter.operations


def delta_backward(draw: np.random.Generator, chunk: int, tokens: int, kept: bool) -> float:
    """Operations of one head: inverses are kept, of Kimi's kernel queries by keys, too.

    fla/ops/gated_delta_rule/chunk.py: recompute_w_u_fwd, chunk_gated_delta_rule_fwd_h,
    chunk_bwd_dv_local, chunk_gated_delta_rule_bwd_dhu, chunk_bwd_dqkwg, prepare_wy_repr_bwd;
    fla/ops/kda/chunk_bwd.py: chunk_kda_bwd_dAv, chunk_kda_bwd_wy_dqkg_fused, chunk_kda_bwd_intra.
    """
    p, n, counter = WIDE["P"], WIDE["N"], Counter()
    q, k = draw.normal(size=(2, tokens, n)) / np.sqrt(n)
    v, given = draw.normal(size=(2, tokens, p))
    strength = draw.uniform(0, 1, size=(tokens, 1))
    logs = -draw.uniform(0.0, 0.05, size=(tokens, n if kept else 1))  # of each channel, or alike
    of = {"q": q, "k": k, "v": v, "strength": strength, "logs": logs}
    found = {name: np.zeros_like(array) for name, array in of.items()}

    def keys(part: slice) -> tuple[Any, ...]:
        log = np.cumsum(logs[part], axis=0)
        past, left = np.exp(log), np.exp(log[-1] - log)
        return past, left, past * q[part], past * k[part], k[part] / past, left * k[part]

    chunks, state = [], np.zeros((n, p))
    for start in range(0, tokens, chunk):
        part = slice(start, start + chunk)
        past, _, turned, after, before, leaving = keys(part)
        beta = strength[part]
        lower = np.tril(beta * (after @ before.T), -1)
        inverse, scores = np.linalg.inv(np.eye(chunk) + lower), np.tril(turned @ before.T)  # kept
        w = counter.times(inverse, beta * after)
        u = counter.times(inverse, beta * v[part])
        new = u - counter.times(w, state)
        chunks.append((part, inverse, scores, w, new, state))
        state = past[-1][:, None] * state + counter.times(leaving.T, new)
    d_state = np.zeros((n, p))
    for part, inverse, scores, w, new, state in reversed(chunks):
        past, left, turned, after, before, leaving = keys(part)
        beta, y = strength[part], given[part]
        if not kept:
            scores = np.tril(counter.times(turned, before.T))
        d_new = counter.times(scores.T, y) + counter.times(leaving, d_state)
        d_scores = np.tril(counter.times(y, new.T))
        d_turned = counter.times(y, state.T) + counter.times(d_scores, before)
        d_before = counter.times(d_scores.T, turned)
        d_leaving = counter.times(new, d_state.T)
        d_w = -counter.times(d_new, state.T)
        d_inverse = counter.times(d_w, (beta * after).T) + counter.times(d_new, (beta * v[part]).T)
        d_strong = counter.times(inverse.T, d_w)
        d_values = counter.times(inverse.T, d_new)
        d_lower = -counter.times(counter.times(inverse.T, d_inverse), inverse.T)
        d_lower = np.tril(d_lower, -1)
        by_rows = counter.times(d_lower, before)
        if not kept:  # beside the inverse's gradient, for those of strengths and decays
            rows = np.sum(d_lower * counter.times(after, before.T), axis=1, keepdims=True)
        else:
            rows = np.sum(by_rows * after, axis=1, keepdims=True)
        d_before += counter.times(d_lower.T, beta * after)
        d_after = beta * (by_rows + d_strong)
        found["v"][part] = beta * d_values
        found["strength"][part] = rows + np.sum(d_strong * after, 1, keepdims=True)
        found["strength"][part] += np.sum(d_values * v[part], 1, keepdims=True)
        found["q"][part] = past * d_turned
        found["k"][part] = past * d_after + d_before / past + left * d_leaving
        d_log = d_turned * turned + d_after * after - d_before * before - d_leaving * leaving
        d_log[-1] += (d_leaving * leaving).sum(0) + past[-1] * (d_state * state).sum(1)
        d_log = np.cumsum(d_log[::-1], axis=0)[::-1]
        found["logs"][part] = d_log if kept else d_log.sum(1, keepdims=True)
        d_state = past[-1][:, None] * d_state + counter.times(turned.T, y)
        d_state = d_state - counter.times(w.T, d_new)

    def out(of: Arrays) -> Any:
        state, rows = np.zeros((n, p), complex), []
        for t in range(tokens):
            state = np.exp(of["logs"][t])[:, None] * state
            change = of["strength"][t] * (of["v"][t] - of["k"][t] @ state)
            state = state + np.outer(of["k"][t], change)
            rows.append(of["q"][t] @ state)
        return np.array(rows)

    slopes_agree(out, of, given, found)
    return counter.operations


def lightning_backward(draw: np.random.Generator, block: int, tokens: int) -> float:
    """Operations of one head: lightning_attn2.py, _bwd_intra_kernel and _bwd_inter_kernel."""
    p, n, counter = WIDE["P"], WIDE["N"], Counter()
    q, k = draw.normal(size=(2, tokens, n))
    v, given = draw.normal(size=(2, tokens, p))
    of = {"q": q, "k": k, "v": v}
    found = {name: np.zeros_like(array) for name, array in of.items()}
    parts = [slice(start, start + block) for start in range(0, tokens, block)]
    state = np.zeros((n, p))
    for part in parts:
        y = given[part]
        change = np.tril(counter.times(y, v[part].T))
        scores = np.tril(counter.times(q[part], k[part].T))
        found["q"][part] = counter.times(change, k[part]) + counter.times(y, state.T)
        found["k"][part] = counter.times(change.T, q[part])
        found["v"][part] = counter.times(scores.T, y)
        state = state + counter.times(k[part].T, v[part])
    d_state = np.zeros((n, p))
    for part in reversed(parts):
        found["k"][part] += counter.times(v[part], d_state.T)
        found["v"][part] += counter.times(k[part], d_state)
        d_state = d_state + counter.times(q[part].T, given[part])
    slopes_agree(lambda of: np.tril(of["q"] @ of["k"].T) @ of["v"], of, given, found)
    return counter.operations


@check(
    "mamba2_state_recompute_flops_per_token delta_state_recompute_flops_per_token "
    "kimi_state_recompute_flops_per_token lightning_state_recompute_flops_per_token "
    "recompute_flops_factor",
    by="simulator",
    source="backward passes from what kernels of mamba_ssm, flash-linear-attention and "
    "lightning_attn keep, every product counted; gradients agree with complex steps of the "
    "recurrence, token by token",
)
def backward_passes_around_states() -> Pairs:
    """Mamba-2, Gated DeltaNet, Kimi's delta rule and lightning attention, chunks of 16 and 32"""
    draw, heads, tokens = np.random.default_rng(5), WIDE["H"], 64
    for chunk in (16, 32):
        done = {
            "mamba2": mamba2_backward(draw, chunk, tokens),
            "gated_deltanet": heads * delta_backward(draw, chunk, tokens, False),
            "kimi_delta": heads * delta_backward(draw, chunk, tokens, True),
            "lightning": heads * lightning_backward(draw, chunk, tokens),
        }
        for kind, backward in done.items():
            more = {"linear_chunk_size": chunk, "sequence_length": 256}
            if kind == "gated_deltanet":
                more |= {"linear_heads": heads, "linear_key_heads": heads}
                more |= {"linear_state_size": WIDE["N"], "linear_head_size": WIDE["P"]}
            run = shape(kind, "MM-", **more)
            names = ["linear_state_flops_per_token", "state_recompute_flops_per_token"]
            names += ["recompute_flops_factor", "kernel_flops_per_token"]
            got = values(names, **run, recompute=False)
            yield got[names[0]] * 2 + got[names[1]], backward / tokens
            again = (got[names[2]] - 1) * got[names[3]]
            yield again, 2 * (backward / tokens - 2 * got[names[0]])
