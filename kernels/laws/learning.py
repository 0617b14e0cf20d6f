"""Loss of a model by size and tokens, and the extra tokens that a large batch takes.

Parameters:
    tokens [1]: tokens D of the run with a batch far below the critical one
    parameter_scale [1]: A
    parameter_exponent [1]: alpha
    token_scale [1]: B
    token_exponent [1]: beta
"""

from typing import Any

from ..ops import np, where


def tokens_at_batch(tokens, batch_tokens, critical_batch_tokens) -> Any:
    """Tokens that a run takes to the loss that small batches reach with fewer.

    E = E_min (1 + B / B_crit), from (S / S_min - 1) (E / E_min - 1) = 1 with S = E / B and
    B_crit = E_min / S_min

    Parameters:
        tokens [1]: tokens E_min with a batch far below the critical one
        batch_tokens [1]: tokens of one batch, B
        critical_batch_tokens [1]: batch B_crit at which a run takes twice the tokens
    Returns: [1] tokens
    Source: McCandlish et al. 2018, arXiv:1812.06162, section 2.3
    Example:
        >>> tokens_at_batch(1e12, 4e6, 4e7)
        1100000000000.0
    """
    return tokens * (1 + batch_tokens / critical_batch_tokens)


def critical_batch_of_tokens(tokens) -> Any:
    """Critical batch size of a run, from its tokens with small batches.

    B_crit = 2048 x 0.0471 D^0.462: batches of sequences of 2,048 tokens

    Returns: [1] tokens of one batch
    Range: fitted to models of 1.1e8 to 3.3e9 parameters on 20 to 1,280 tokens for each
    Source: Bergsma et al. 2025, arXiv:2505.13738, eqs 6 and 7, fig. 1
    """
    return 2048 * 0.0471 * np.exp(0.462 * np.log(tokens))


def critical_batch_at_overhead(tokens) -> Any:
    """Critical batch size of a run, from the batch that takes 20 % more tokens.

    B_crit = B* / 0.2, B* = 512 x 22.91 (D / 1e6)^0.47: batches of sequences of 512 tokens

    Returns: [1] tokens of one batch
    Range: fitted to models of 8.5e7 to 1.2e9 parameters on 20 tokens for each; B* is where steps
        are 1.2 times those of a linear speed-up: by E = E_min (1 + B / B_crit), at B_crit / 5
    Source: Zhang et al. 2024, arXiv:2410.21676, definition 1 and fig. 1
    """
    return 5 * 512 * 22.91 * np.exp(0.47 * np.log(tokens / 1e6))


def critical_batch_between(tokens, earlier_tokens, critical_before, critical_after) -> Any:
    """Critical batch size over a part of a run, from those of runs up to either of its ends.

    D / (b / B_b - a / B_a), b = a + D: parts of a run at one batch size together take what the
    undivided run takes, as a / B_a is the sum of 1 / B_crit over each of the tokens up to a

    Parameters:
        tokens [1]: tokens D of the part, with a batch far below the critical one
        earlier_tokens [1]: tokens a before it
        critical_before [1]: critical batch B_a of a run that ends where the part begins
        critical_after [1]: critical batch B_b of a run that ends with the part
    Returns: [1] tokens of one batch
    Range: at least 1e-6 of the tokens before, below which digits are lost; b / B_b above a / B_a,
        as it is for any law whose batch grows more slowly than the tokens
    Source: McCandlish et al. 2018, arXiv:1812.06162, section 2.3 (tokens and steps of a stretch of
        training, summed)
    Example:
        >>> float(critical_batch_between(3.0, 1.0, 2.0, 4.0))
        6.0
    """
    begun = earlier_tokens > 0
    wasted = (earlier_tokens + tokens) / critical_after - earlier_tokens / critical_before
    return where(begun, tokens / where(begun, wasted, 1.0), critical_after)


def critical_batch_of_loss(loss) -> Any:
    """Critical batch size where a run has reached a loss.

    B_crit = 2e8 / L^(1 / 0.21)

    Parameters: loss [1]: loss L of a token, in nats
    Returns: [1] tokens of one batch
    Range: fitted to models of up to 1.5e9 parameters at losses of 3 to 10; a loss depends on the
        text and on how it is cut into tokens: here WebText2, in the 50,257 of GPT-2
    Source: Kaplan et al. 2020, arXiv:2001.08361, eq. 1.4
    """
    return 2e8 * np.exp(-np.log(loss) / 0.21)


def power_law_loss(
    parameters,
    tokens,
    irreducible_loss,
    parameter_scale,
    parameter_exponent,
    token_scale,
    token_exponent,
) -> Any:
    """Loss of a model by its size and training tokens.

    L = E + A / N^alpha + B / D^beta

    Parameters:
        parameters [1]: parameters N of a dense model
        tokens [1]: tokens D, each seen once
        irreducible_loss [1]: loss E that no size and no training removes
    Returns: [1] loss of a token, in nats
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eq. 2
    """
    of_size = parameter_scale * np.exp(-parameter_exponent * np.log(parameters))
    return irreducible_loss + of_size + token_scale * np.exp(-token_exponent * np.log(tokens))


def optimal_parameters(
    pairs, parameter_scale, parameter_exponent, token_scale, token_exponent
) -> Any:
    """Parameters of the compute-optimal model: least loss for a training's operations.

    N = (alpha A / (beta B))^(1 / (alpha + beta)) (N D)^(beta / (alpha + beta))

    Parameters: pairs [1]: parameters times tokens, N D: a sixth of the operations
    Returns: [1] parameters
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eq. 4 (C = 6 N D)
    """
    ratio = parameter_exponent * parameter_scale / (token_exponent * token_scale)
    power = np.log(ratio) + token_exponent * np.log(pairs)
    return np.exp(power / (parameter_exponent + token_exponent))


def optimal_tokens(
    parameters, parameter_scale, parameter_exponent, token_scale, token_exponent
) -> Any:
    """Tokens for which a model's size is compute-optimal.

    alpha A / N^alpha = beta B / D^beta

    Parameters: parameters [1]: parameters N of the model
    Returns: [1] tokens
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eq. 4, solved for D where N is given
    """
    ratio = token_exponent * token_scale / (parameter_exponent * parameter_scale)
    return np.exp((np.log(ratio) + parameter_exponent * np.log(parameters)) / token_exponent)
