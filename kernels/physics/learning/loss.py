"""Tokens, loss and the batch: what training brings."""

import numpy as np

from ...alternatives import alternative, same_as
from ...learning import (
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
    """Tokens of the training run, where neither the scenario nor the model's label states them.

    D = 20 N

    Returns: [1] tokens
    Source: Hoffmann et al. 2022, arXiv:2203.15556, table 3 (about 20 tokens per parameter)
    Example:
        >>> training_tokens(70e9) / 1e12
        1.4
    """
    return 20 * parameters


def tokens_before(earlier_tokens):
    """Tokens that the model has seen before the job, or before its phase.

    those stated; in a phase, and those of the phases before it

    Returns: [1] tokens
    Source: stated by the scenario
    """
    return 1.0 * earlier_tokens


def trained_tokens(tokens_before, training_tokens):
    """Tokens that the model has seen when the job, or its phase, ends.

    a + D

    Returns: [1] tokens
    Source: by definition
    """
    return tokens_before + training_tokens


@alternative("critical_batch_tokens", critical_batch_law="bergsma")
def bergsma_critical_batch_tokens(training_tokens, tokens_before, trained_tokens):
    """Critical batch size, in tokens, where the scenario does not state it.

    B_crit = 2048 x 0.0471 D^0.462; from a to b tokens, D / (b / B_crit(b) - a / B_crit(a))

    Returns: [1] tokens of one batch, with which a run takes twice those of small batches
    Range: fitted to models of 1.1e8 to 3.3e9 parameters on 20 to 1,280 tokens for each; a remark
        says where a sweep is beyond. `training_tokens` stand for those with small batches: with
        `reference_batch_tokens` r, too large by less than 1 + 0.46 r / B_crit
    Source: Bergsma et al. 2025, arXiv:2505.13738, eqs 6 and 7, fig. 1; McCandlish et al. 2018,
        arXiv:1812.06162, section 2.3 (a part of a run)
    """
    before = critical_batch_of_tokens(where(tokens_before > 0, tokens_before, 1.0))
    after = critical_batch_of_tokens(trained_tokens)
    return critical_batch_between(training_tokens, tokens_before, before, after)


@alternative("critical_batch_tokens", critical_batch_law="zhang")
def zhang_critical_batch_tokens(training_tokens, tokens_before, trained_tokens):
    """Critical batch size, in tokens, from the batch that takes 20 % more tokens.

    B_crit = 5 x 512 x 22.91 (D / 1e6)^0.47; from a to b tokens, D / (b / B_crit(b) - a / B_crit(a))

    Range: fitted to models of 8.5e7 to 1.2e9 parameters on 20 tokens for each; a remark says where
        a sweep is beyond. `training_tokens` stand for those with small batches
    Source: Zhang et al. 2024, arXiv:2410.21676, definition 1 and fig. 1; McCandlish et al. 2018,
        arXiv:1812.06162, section 2.3 (a part of a run)
    """
    before = critical_batch_at_overhead(where(tokens_before > 0, tokens_before, 1.0))
    after = critical_batch_at_overhead(trained_tokens)
    return critical_batch_between(training_tokens, tokens_before, before, after)


@alternative("critical_batch_tokens", critical_batch_law="kaplan")
@same_as(critical_batch_of_loss)
def kaplan_critical_batch_tokens(loss):
    """Critical batch size, in tokens, at the loss that the run, or its phase, ends with.

    2e8 / L^(1 / 0.21)

    Range: fitted to models of up to 1.5e9 parameters at losses of 3 to 10 on WebText2; a remark
        says where a sweep is beyond. The loss of `loss_fit` is of another text in other tokens.
        Each phase pays for the loss that it ends with: a run that is cut into 2 equal phases takes
        0.6 to 1.6 % more tokens, into 20 2 to 5 %; by the other laws it takes those of the whole
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
    """Tokens that the run takes: to the loss that those stated reach with the reference batch.

    D (1 + B s / B_crit) / (1 + B_ref / B_crit) - what a ramp of the batch spares

    Returns: [1] tokens
    Range: learning rates tuned to the batch, each token seen once, one critical batch size for the
        whole run, or phase: in its beginning it is smaller. A ramp that the
        run does not outlast is infeasible: `stages_of_training_do_not_fit`
    Source: McCandlish et al. 2018, arXiv:1812.06162, section 2.3
    """
    least = training_tokens / (1 + reference_batch_tokens / critical_batch_tokens)
    grown = tokens_at_batch(least, tokens_per_step, critical_batch_tokens)
    return grown - ramp_spared_tokens


@alternative("ramp_spared_tokens", training_stages="several", off=0.0)
def ramp_spared_tokens(ramp_tokens_factor, ramp_tokens):
    """Tokens that a ramp spares: smaller batches learn as much from fewer.

    (factor - 1) R

    Returns: [1] tokens
    Source: by definition of the factor
    """
    return (ramp_tokens_factor - 1) * ramp_tokens


@alternative("ramp_tokens_factor", batch_ramp="linear")
def linear_ramp_tokens_factor(
    ramp_start_batch_size, global_batch_size, sequence_length, critical_batch_tokens
):
    """Tokens in which the last batch would learn as much as those of a ramp, over the ramp's.

    (1 + m) ln(1 + m) / m, m = (B - B_0) / (B_crit / s + B_0)

    Returns: [1] tokens over tokens
    Range: a batch that grows evenly with the tokens seen
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
    """Tokens in which the last batch would learn as much as the first before it, over those.

    1 + (B - B_0) / (B_crit / s + B_0)

    Source: McCandlish et al. 2018, arXiv:1812.06162, section 2.3
    """
    critical = critical_batch_tokens / sequence_length
    return 1 + (global_batch_size - ramp_start_batch_size) / (critical + ramp_start_batch_size)


@alternative("irreducible_loss", loss_fit="besiroglu")
def besiroglu_irreducible_loss():
    """Loss that no size and no training removes.

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
    """Scale of the loss that a larger model removes.

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
    """Power with which the loss falls with parameters.

    alpha = 0.3478, as corrected

    Returns: [1] power
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
    """Scale of the loss that more tokens remove.

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
    """Power with which the loss falls with tokens.

    beta = 0.3658, as corrected

    Returns: [1] power
    Range: 7e7 to 1.6e10 parameters, 5e9 to 5e11 tokens; a remark says where a sweep is beyond
    Source: Besiroglu et al. 2024, arXiv:2404.10102, table 1
    """
    return 0.3658


@alternative("token_loss_exponent", loss_fit="hoffmann")
def hoffmann_token_loss_exponent():
    """beta = 0.2849, as first published

    Range: 7e7 to 1.6e10 parameters, 5e9 to 5e11 tokens; a remark says where a sweep is beyond
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
    """Loss that the run ends with.

    E + A / N^alpha + B / D^beta

    Returns: [1] loss of a token, in nats
    Range: dense models, tokens seen once, batches far below the critical one (larger ones end with
        this loss after `tokens_to_target`); text and tokens of the fit, so that losses of others
        differ by more than models do. A bound from above for a mixture of experts
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
    """Tokens with which the model is of the size that is best for its training's operations.

    alpha A / N^alpha = beta B / D^beta

    Returns: [1] tokens
    Range: as `loss`; off by the fit: published optima of 7e10 and 4e11 parameters are 1.1 and 2.4
        times as much
    Source: Hoffmann et al. 2022, arXiv:2203.15556, eq. 4, solved for D where N is given
    """


def overtraining(trained_tokens, compute_optimal_tokens):
    """Tokens of the run over those with which the model is of the best size.

    D / D_opt

    Returns: [1] ratio: above 1, a smaller model than the operations could train, cheaper to use
    Source: by definition
    """
    return trained_tokens / compute_optimal_tokens


def parameter_token_pairs(active_parameters, trained_tokens):
    """Parameters times tokens: a sixth of the operations of a dense model's training.

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
    """Parameters of the model with the least loss for as many operations as this training's.

    (alpha A / (beta B))^(1 / (alpha + beta)) (N D)^(beta / (alpha + beta))

    Returns: [1] parameters
    Range: as `loss`
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
    """The least loss for as many operations as this training's.

    E + A / N_opt^alpha + B / D_opt^beta, D_opt = N D / N_opt

    Returns: [1] loss of a token, in nats
    Range: as `loss`
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
    """Operations of training a model and of using it over its life.

    6 N D + 2 N D_use

    Returns: [FLOP] operations
    Range: without those of attention, as in `flops_counting = parameters`
    Source: Sardana et al. 2024, arXiv:2401.00448, eq. 3
    """
    return active_parameters * (6 * tokens_to_target + 2 * lifetime_inference_tokens)
