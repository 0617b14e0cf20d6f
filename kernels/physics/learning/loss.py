"""Training tokens, final loss and critical batch size."""

import numpy as np

from ...alternatives import alternative, same_as
from ...laws.learning import (
    critical_batch_at_overhead,
    critical_batch_between,
    critical_batch_of_loss,
    critical_batch_of_tokens,
    optimal_parameters,
    optimal_tokens,
    power_law_loss,
    tokens_at_batch,
)
from ...ops import where


def training_tokens(parameters):
    """Default training tokens, where neither the scenario nor the model's label states them.

    D = 20 N

    Returns: [1] tokens
    Source: Hoffmann et al. 2022, arXiv:2203.15556, table 3 (about 20 tokens per parameter)
    Example:
        >>> training_tokens(70e9) / 1e12
        1.4
    """
    return 20 * parameters


def tokens_before(earlier_tokens):
    """Tokens that the model has seen before the job, or before the phase of it.

    those stated, plus those of earlier phases

    Returns: [1] tokens
    Source: stated by the scenario
    """
    return 1.0 * earlier_tokens


def trained_tokens(tokens_before, training_tokens):
    """Tokens that the model has seen when the job, or the phase of it, ends.

    a + D

    Returns: [1] tokens
    Source: by definition
    """
    return tokens_before + training_tokens


@alternative("critical_batch_tokens", critical_batch_law="bergsma")
def bergsma_critical_batch_tokens(training_tokens, tokens_before, trained_tokens):
    """Critical batch size in tokens, where the scenario does not state it.

    B_crit = 2048 x 0.0471 D^0.462; from a to b tokens, D / (b / B_crit(b) - a / B_crit(a))

    Returns: [1] tokens of one batch, at which a run takes twice the tokens of small batches
    Range: fitted to models of 1.1e8 to 3.3e9 parameters at 20 to 1,280 tokens per parameter; a
        remark flags sweeps beyond. `training_tokens` are taken as those with small batches: with
        `reference_batch_tokens` r, too large by less than 1 + 0.46 r / B_crit
    Source: Bergsma et al. 2025, arXiv:2505.13738, eqs 6 and 7, fig. 1; McCandlish et al. 2018,
        arXiv:1812.06162, section 2.3 (a part of a run)
    """
    before = critical_batch_of_tokens(where(tokens_before > 0, tokens_before, 1.0))
    after = critical_batch_of_tokens(trained_tokens)
    return critical_batch_between(training_tokens, tokens_before, before, after)


@alternative("critical_batch_tokens", critical_batch_law="zhang")
def zhang_critical_batch_tokens(training_tokens, tokens_before, trained_tokens):
    """Critical batch size in tokens, from the batch that takes 20 % more tokens.

    B_crit = 5 x 512 x 22.91 (D / 1e6)^0.47; from a to b tokens, D / (b / B_crit(b) - a / B_crit(a))

    Range: fitted to models of 8.5e7 to 1.2e9 parameters at 20 tokens per parameter; a remark flags
        sweeps beyond. `training_tokens` are taken as those with small batches
    Source: Zhang et al. 2024, arXiv:2410.21676, definition 1 and fig. 1; McCandlish et al. 2018,
        arXiv:1812.06162, section 2.3 (a part of a run)
    """
    before = critical_batch_at_overhead(where(tokens_before > 0, tokens_before, 1.0))
    after = critical_batch_at_overhead(trained_tokens)
    return critical_batch_between(training_tokens, tokens_before, before, after)


@alternative("critical_batch_tokens", critical_batch_law="kaplan")
@same_as(critical_batch_of_loss)
def kaplan_critical_batch_tokens(loss):
    """Critical batch size in tokens, at the final loss of the run or phase.

    2e8 / L^(1 / 0.21)

    Range: fitted to models of up to 1.5e9 parameters at losses of 3 to 10 on WebText2; a remark
        flags sweeps beyond. The loss of `loss_fit` is for another text and tokenizer. Each phase
        uses its own final loss: splitting a run into 2 equal phases takes 0.6 to 1.6 % more tokens,
        into 20 phases 2 to 5 %; with the other laws, splitting changes nothing
    Source: Kaplan et al. 2020, arXiv:2001.08361, eq. 1.4
    """


@alternative("tokens_to_target", batch_quality="critical", off="training_tokens")
def critical_tokens_to_target(
    training_tokens,
    tokens_per_step,
    reference_batch_tokens,
    critical_batch_tokens,
    ramp_spared_tokens,
):
    """Tokens needed to reach the loss that the stated tokens reach at the reference batch size.

    D (1 + B s / B_crit) / (1 + B_ref / B_crit) - tokens saved by a batch-size ramp

    Returns: [1] tokens
    Range: learning rate tuned to the batch, each token seen once, one critical batch size for the
        whole run or phase, although it is smaller at the start. A ramp longer than the run is
        infeasible: `stages_of_training_do_not_fit`
    Source: McCandlish et al. 2018, arXiv:1812.06162, section 2.3
    """
    least = training_tokens / (1 + reference_batch_tokens / critical_batch_tokens)
    grown = tokens_at_batch(least, tokens_per_step, critical_batch_tokens)
    return grown - ramp_spared_tokens


@alternative("ramp_spared_tokens", training_stages="several", off=0.0)
def ramp_spared_tokens(ramp_tokens_factor, ramp_tokens):
    """Tokens that a batch-size ramp saves, as smaller batches need fewer for the same progress.

    (factor - 1) R

    Returns: [1] tokens
    Source: by definition of the factor
    """
    return (ramp_tokens_factor - 1) * ramp_tokens


@alternative("ramp_tokens_factor", batch_ramp="linear")
def linear_ramp_tokens_factor(
    ramp_start_batch_size, global_batch_size, sequence_length, critical_batch_tokens
):
    """Tokens at the final batch size that match the progress of a linear ramp, over its tokens.

    (1 + m) ln(1 + m) / m, m = (B - B_0) / (B_crit / s + B_0)

    Returns: [1] tokens over tokens
    Range: batch size linear in tokens seen
    Source: McCandlish et al. 2018, arXiv:1812.06162, section 2.3, over the batches of the ramp
    """
    critical = critical_batch_tokens / sequence_length
    more = (global_batch_size - ramp_start_batch_size) / (critical + ramp_start_batch_size)
    grows = np.abs(more) > 1e-6
    return where(grows, (1 + more) * np.log1p(more) / where(grows, more, 1.0), 1 + more / 2)


@alternative("ramp_tokens_factor", batch_ramp="step")
def stepped_ramp_tokens_factor(
    ramp_start_batch_size, global_batch_size, sequence_length, critical_batch_tokens
):
    """Tokens at the final batch size that match the progress at the first size, over its tokens.

    1 + (B - B_0) / (B_crit / s + B_0)

    Source: McCandlish et al. 2018, arXiv:1812.06162, section 2.3
    """
    critical = critical_batch_tokens / sequence_length
    return 1 + (global_batch_size - ramp_start_batch_size) / (critical + ramp_start_batch_size)


@alternative("irreducible_loss", loss_fit="besiroglu")
def besiroglu_irreducible_loss():
    """Irreducible loss of the scaling law.

    E = 1.8172, as corrected

    Returns: [1] nats a token
    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1
    """
    return 1.8172


@alternative("irreducible_loss", loss_fit="hoffmann")
def hoffmann_irreducible_loss():
    """E = 1.6934, as first published

    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1 (Hoffmann et al.
        2022, arXiv:2203.15556, eq. 10, unrounded)
    """
    return 1.6934


@alternative("parameter_loss_scale", loss_fit="besiroglu")
def besiroglu_parameter_loss_scale():
    """Coefficient of the parameter term of the loss.

    A = 482.01, as corrected

    Returns: [1] nats a token at one parameter
    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1
    """
    return 482.01


@alternative("parameter_loss_scale", loss_fit="hoffmann")
def hoffmann_parameter_loss_scale():
    """A = 406.4, as first published

    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1 (Hoffmann et al.
        2022, arXiv:2203.15556, eq. 10, unrounded)
    """
    return 406.4


@alternative("parameter_loss_exponent", loss_fit="besiroglu")
def besiroglu_parameter_loss_exponent():
    """Exponent of the parameter term of the loss.

    alpha = 0.3478, as corrected

    Returns: [1] exponent
    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1
    """
    return 0.3478


@alternative("parameter_loss_exponent", loss_fit="hoffmann")
def hoffmann_parameter_loss_exponent():
    """alpha = 0.3392, as first published

    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1 (Hoffmann et al.
        2022, arXiv:2203.15556, eq. 10, unrounded)
    """
    return 0.3392


@alternative("token_loss_scale", loss_fit="besiroglu")
def besiroglu_token_loss_scale():
    """Coefficient of the token term of the loss.

    B = 2085.43, as corrected

    Returns: [1] nats a token at one token
    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1
    """
    return 2085.43


@alternative("token_loss_scale", loss_fit="hoffmann")
def hoffmann_token_loss_scale():
    """B = 410.7, as first published

    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1 (Hoffmann et al.
        2022, arXiv:2203.15556, eq. 10, unrounded)
    """
    return 410.7


@alternative("token_loss_exponent", loss_fit="besiroglu")
def besiroglu_token_loss_exponent():
    """Exponent of the token term of the loss.

    beta = 0.3658, as corrected

    Returns: [1] exponent
    Range: 7e7 to 1.6e10 parameters, 5e9 to 5e11 tokens; a remark flags sweeps beyond
    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1
    """
    return 0.3658


@alternative("token_loss_exponent", loss_fit="hoffmann")
def hoffmann_token_loss_exponent():
    """beta = 0.2849, as first published

    Range: 7e7 to 1.6e10 parameters, 5e9 to 5e11 tokens; a remark flags sweeps beyond
    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1 (Hoffmann et al.
        2022, arXiv:2203.15556, eq. 10, unrounded)
    """
    return 0.2849


@same_as(power_law_loss)
def loss(
    active_parameters,
    trained_tokens,
    irreducible_loss,
    parameter_loss_scale,
    parameter_loss_exponent,
    token_loss_scale,
    token_loss_exponent,
):
    """Final training loss.

    E + A / N^alpha + B / D^beta

    Returns: [1] loss of a token, in nats
    Range: dense models, tokens seen once, batches far below critical (larger ones reach this loss
        after `tokens_to_target`). Text and tokenizer of the fit: others shift the loss by more than
        models differ. An upper bound for a mixture of experts
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eq. 2
    """


@same_as(optimal_tokens)
def compute_optimal_tokens(
    active_parameters,
    parameter_loss_scale,
    parameter_loss_exponent,
    token_loss_scale,
    token_loss_exponent,
):
    """Tokens for which this model size is compute-optimal.

    alpha A / N^alpha = beta B / D^beta

    Returns: [1] tokens
    Range: same as `loss`; sensitive to the fit: published optima at 7e10 and 4e11 parameters are
        1.1 and 2.4 times as high
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eq. 4, solved for D where N is given
    """


def overtraining(trained_tokens, compute_optimal_tokens):
    """Training tokens over compute-optimal tokens.

    D / D_opt

    Returns: [1] ratio: above 1, the model is smaller than compute-optimal, hence cheaper to serve
    Source: by definition
    """
    return trained_tokens / compute_optimal_tokens


def parameter_token_pairs(active_parameters, trained_tokens):
    """Parameters times tokens: a sixth of a dense model's training operations.

    N D

    Returns: [1] pairs
    Source: by definition (Hoffmann et al. 2022, arXiv:2203.15556, section 3.3: C = 6 N D)
    """
    return active_parameters * trained_tokens


@same_as(optimal_parameters)
def compute_optimal_parameters(
    parameter_token_pairs,
    parameter_loss_scale,
    parameter_loss_exponent,
    token_loss_scale,
    token_loss_exponent,
):
    """Compute-optimal parameters: least loss for this run's training operations.

    (alpha A / (beta B))^(1 / (alpha + beta)) (N D)^(beta / (alpha + beta))

    Returns: [1] parameters
    Range: same as `loss`
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eq. 4
    """


def compute_optimal_loss(
    compute_optimal_parameters,
    parameter_token_pairs,
    irreducible_loss,
    parameter_loss_scale,
    parameter_loss_exponent,
    token_loss_scale,
    token_loss_exponent,
):
    """Least loss for this run's training operations.

    E + A / N_opt^alpha + B / D_opt^beta, D_opt = N D / N_opt

    Returns: [1] loss of a token, in nats
    Range: same as `loss`
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eqs 2 and 4
    """
    return power_law_loss(
        compute_optimal_parameters,
        parameter_token_pairs / compute_optimal_parameters,
        irreducible_loss,
        parameter_loss_scale,
        parameter_loss_exponent,
        token_loss_scale,
        token_loss_exponent,
    )


def lifetime_flops(active_parameters, tokens_to_target, lifetime_inference_tokens):
    """Operations of training a model plus inference over its lifetime.

    6 N D + 2 N D_use

    Returns: [FLOP] operations
    Range: attention operations excluded, as in `flops_counting = parameters`
    Source: Sardana et al. 2024, arXiv:2401.00448, eq. 3
    """
    return active_parameters * (6 * tokens_to_target + 2 * lifetime_inference_tokens)
