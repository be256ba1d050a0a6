"""Hooks: erasure between the layers of real models, and nothing left behind."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM
from transformers.modeling_outputs import BaseModelOutput

import unspot
from unspot import LEACE, Eraser

D = 16


@pytest.fixture(scope="module")
def eraser():
    """A projection that takes away the first of 16 directions of a random basis."""
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(D, D)))[0]
    return Eraser.projection(U[:, 1:])


@pytest.fixture
def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=D, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config).eval()


@pytest.fixture
def llama():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=D, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, intermediate_size=24,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@pytest.fixture
def tokens():
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(3, 6, dtype=torch.long)
    mask[1, 4:] = 0
    return {"input_ids": torch.randint(1, 50, (3, 6), generator=generator), "attention_mask": mask}


def hidden(model, tokens):
    with torch.no_grad():
        return model(**tokens, output_hidden_states=True).hidden_states


def n_hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


# -- what is erased ------------------------------------------------------------------------------


def test_every_layer_that_a_pattern_matches_is_erased(bert, tokens, eraser):
    plain = hidden(bert, tokens)  # which also makes transformers attach its own hooks
    before = n_hooks(bert)
    with unspot.hooks(bert, {"encoder.layer.*": eraser}) as attached:
        states = hidden(bert, tokens)
        assert list(attached.erasers) == [f"encoder.layer.{i}" for i in range(3)]
    torch.testing.assert_close(states[1], eraser(plain[1]), rtol=0, atol=1e-5)
    for later in states[1:]:  # erased again: nothing changes
        torch.testing.assert_close(later, eraser(later), rtol=0, atol=1e-5)
    assert not torch.allclose(states[-1], plain[-1])
    assert n_hooks(bert) == before
    torch.testing.assert_close(hidden(bert, tokens)[-1], plain[-1])


def test_a_star_stands_for_one_part_of_a_name(bert, eraser):
    attached = unspot.hooks(bert, {"encoder.layer.*": eraser})
    assert all(name.count(".") == 2 for name in attached.erasers)
    assert list(unspot.hooks(bert, {"encoder.layer.[01]": eraser}).erasers) == [
        "encoder.layer.0",
        "encoder.layer.1",
    ]


def test_several_erasers_each_at_its_place(bert, tokens, eraser):
    other = Eraser.projection(np.eye(D)[:, 1:])
    with unspot.hooks(bert, {"encoder.layer.0": eraser, "encoder.layer.2": other}):
        states = hidden(bert, tokens)
    torch.testing.assert_close(states[1], eraser(states[1]), rtol=0, atol=1e-5)
    assert not torch.allclose(states[2], eraser(states[2]), atol=1e-3)
    assert states[3][..., 0].abs().max() == 0


def test_a_fitted_estimator_is_taken_too(bert, tokens):
    rows = hidden(bert, tokens)[1].reshape(-1, D).numpy()
    estimator = LEACE().fit(rows, np.arange(len(rows)) % 2)
    with unspot.hooks(bert, {"encoder.layer.0": estimator}):
        states = hidden(bert, tokens)[1].reshape(-1, D)
    np.testing.assert_allclose(states, estimator.transform(rows), atol=1e-5)


Pair = namedtuple("Pair", "states other")


class Wrapped(nn.Module):
    """Returns its input in some form."""

    def __init__(self, form):
        super().__init__()
        self.form, self.inner = form, nn.Identity()

    def forward(self, *, states):
        return self.form(self.inner(input=states))


FORMS = {
    "tensor": (lambda x: x, lambda out: out),
    "tuple": (lambda x: (x, None), lambda out: out[0]),
    "list": (lambda x: [x, 1], lambda out: out[0]),
    "named tuple": (lambda x: Pair(x, 1), lambda out: out.states),
    "dict": (lambda x: {"states": x, "n": 1}, lambda out: out["states"]),
    "model output": (lambda x: BaseModelOutput(x), lambda out: out.last_hidden_state),
}


@pytest.mark.parametrize("form", FORMS)
def test_outputs_of_every_form_by_keyword(form, eraser):
    wrap, unwrap = FORMS[form]
    model, x = Wrapped(wrap), torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))
    with unspot.hooks(model, {"": eraser}):
        output = model(states=x)
    torch.testing.assert_close(unwrap(output), eraser(x), rtol=0, atol=1e-5)
    assert type(output) is type(wrap(x))


# -- positions -----------------------------------------------------------------------------------


def moved(states, plain):
    """Which positions differ."""
    return ((states - plain).abs().amax(-1) > 1e-4).int().tolist()


@pytest.mark.parametrize(
    ("positions", "wanted"),
    [
        ("all", [[1] * 6] * 3),
        ("cls", [[1, 0, 0, 0, 0, 0]] * 3),
        ("last", [[0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]]),
    ],
)
def test_positions(bert, tokens, eraser, positions, wanted):
    plain = hidden(bert, tokens)[1]
    with unspot.hooks(bert, {"encoder.layer.0": eraser}, positions=positions):
        states = hidden(bert, tokens)[1]
    assert moved(states, plain) == wanted


def test_padding_at_the_left(llama, tokens, eraser):
    tokens["attention_mask"] = tokens["attention_mask"].flip(1)
    plain = hidden(llama, tokens)[1]
    for positions, row in {"cls": [0, 0, 1, 0, 0, 0], "last": [0, 0, 0, 0, 0, 1]}.items():
        with unspot.hooks(llama, {"model.layers.0": eraser}, positions=positions):
            assert moved(hidden(llama, tokens)[1], plain)[1] == row


@pytest.mark.parametrize("form", ["keyword", "position", "none"])
def test_the_mask_is_that_of_the_call(llama, tokens, eraser, form):
    """Also if a part of the model is called, after a call of the whole with another mask."""
    ids, mask = tokens["input_ids"], tokens["attention_mask"]
    plain = llama.model(ids, mask).last_hidden_state
    with unspot.hooks(llama, {"model.norm": eraser}, positions="last"):
        llama(ids[:2], attention_mask=torch.zeros(2, 6).long().index_fill(1, torch.tensor([0]), 1))
        called = {
            "keyword": lambda: llama.model(ids, attention_mask=mask),
            "position": lambda: llama.model(ids, mask),
            "none": lambda: llama.model(ids),
        }[form]()
    wanted = [[0, 0, 0, 0, 0, 1]] * 3
    if form != "none":
        wanted = [wanted[0], [0, 0, 0, 1, 0, 0], wanted[0]]
    else:
        plain = llama.model(ids).last_hidden_state
    assert moved(called.last_hidden_state, plain) == wanted


def test_a_mask_of_positions(bert, tokens, eraser):
    plain, mask = hidden(bert, tokens)[1], torch.zeros(3, 6, dtype=torch.bool)
    mask[0, 2] = mask[2, 5] = True
    with unspot.hooks(bert, {"encoder.layer.0": eraser}, positions=mask):
        assert moved(hidden(bert, tokens)[1], plain) == mask.int().tolist()


def test_generation_step_by_step(llama, eraser):
    """With a cache, each step sees one token: erased as if all were computed at once."""
    prompt = torch.tensor([[3, 4, 5]])
    with unspot.hooks(llama, {"model.layers.*": eraser}):
        text = llama.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0)
        logits = llama(text).logits
    assert text[0, 3:].tolist() == logits[0, 2:-1].argmax(-1).tolist()


# -- the ways in which models are run ------------------------------------------------------------


def gradient(model, tokens, erasers):
    model.zero_grad()
    with unspot.hooks(model, erasers):
        model(**tokens).last_hidden_state.pow(2).sum().backward()
    return model.embeddings.word_embeddings.weight.grad.clone()


def test_gradient_checkpointing_gives_the_same_gradients(bert, tokens, eraser):
    erasers = {"encoder.layer.*": eraser}
    bert.train()
    expected = gradient(bert, tokens, erasers)
    bert.gradient_checkpointing_enable({"use_reentrant": False})
    torch.testing.assert_close(gradient(bert, tokens, erasers), expected)
    assert not torch.allclose(gradient(bert, tokens, {}), expected, rtol=1e-2)


def test_inference_mode_and_training_afterwards(bert, tokens, eraser):
    with unspot.hooks(bert, {"encoder.layer.*": eraser}):
        with torch.inference_mode():
            states = bert(**tokens).last_hidden_state
        trained = bert(**tokens).last_hidden_state
        trained.sum().backward()
    torch.testing.assert_close(states, trained.detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_model_whose_dtype_changes_after_attaching(bert, tokens, eraser, dtype):
    with unspot.hooks(bert, {"encoder.layer.*": eraser}):
        bert.to(dtype)
        states = hidden(bert, tokens)[-1]
    assert states.dtype == dtype
    error = (states.double() - eraser(states.double())).abs().max()
    assert error < {torch.float64: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]


def test_a_model_that_moves_after_attaching(bert, eraser):
    """No second device is here but "meta", which computes shapes and refuses to mix devices."""
    with unspot.hooks(bert, {"encoder.layer.*": eraser}):
        bert.to("meta")
        output = bert(torch.ones(2, 4, dtype=torch.long, device="meta"))
    assert output.last_hidden_state.device.type == "meta"


def test_the_state_of_the_model_does_not_change(bert, eraser):
    names = list(bert.state_dict())
    with unspot.hooks(bert, {"encoder.layer.*": eraser}):
        assert list(bert.state_dict()) == names


def test_as_hook_has_the_signature_of_transformer_lens(eraser):
    x = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(0))
    hook = eraser.as_hook()
    torch.testing.assert_close(hook(x, hook=object()), eraser(x), rtol=0, atol=1e-5)
    torch.testing.assert_close(hook(x), hook(x, None))
    assert hook(x.to("meta")).device.type == "meta"


# -- bad input: a sentence, and nothing left attached --------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        ("encoder.layers.*", r"'encoder.layers.\*'.*no module of BertModel.*'encoder.layer.\*'"),
        ("encoder.layer.7", r"no module.*Did you mean.*encoder.layer"),
    ],
)
def test_a_pattern_that_matches_nothing_names_the_nearest(bert, eraser, pattern, needles):
    before = n_hooks(bert)
    with pytest.raises(ValueError, match=needles), unspot.hooks(bert, {pattern: eraser}):
        pass
    assert n_hooks(bert) == before


def test_a_width_that_does_not_fit(bert, tokens):
    before, wrong = n_hooks(bert), Eraser.projection(np.eye(5)[:, :4])
    unspot.hooks(bert, {"encoder.layer.0": wrong}).attach()  # without a block that would end it
    with pytest.raises(ValueError, match=r"\(3, 6, 16\).*'encoder.layer.0'.*5 features"):
        bert(**tokens)
    assert n_hooks(bert) == before
    bert(**tokens)


@pytest.mark.parametrize(
    ("output", "words"),
    [(None, "NoneType"), (torch.ones(2, D).int(), "int32")],
    ids=["none", "int"],
)
def test_a_module_that_returns_no_tensor(output, words, eraser):
    model = Wrapped(lambda x: output)
    before = n_hooks(model)
    message = rf"{words}.*expected a tensor.*Choose a module"
    with pytest.raises(ValueError, match=message), unspot.hooks(model, {"": eraser}):
        model(states=torch.ones(2, D))
    assert n_hooks(model) == before


@pytest.mark.parametrize("foreign", [np.eye(D), nn.Linear(D, D), LEACE(), "eraser.safetensors"])
def test_an_eraser_of_a_foreign_kind(bert, foreign):
    with pytest.raises(TypeError, match=r"Got a \w+ for 'pooler', but expected an unspot.Eraser"):
        unspot.hooks(bert, {"pooler": foreign})


def test_an_eraser_with_fewer_results_than_features(bert):
    from unspot.maps import Compress

    shorter = Eraser((Compress(np.eye(D)[:, :4]),))
    with pytest.raises(ValueError, match=r"from 16 to 4 features.*as many after"):
        unspot.hooks(bert, {"encoder.layer.0": shorter})


def test_attaching_twice(bert, tokens, eraser):
    before = n_hooks(bert)
    with unspot.hooks(bert, {"encoder.layer.0": eraser}):
        inside = n_hooks(bert)
        with (
            pytest.raises(ValueError, match=r"'encoder.layer.0'.*already.*remove\(\)"),
            unspot.hooks(bert, {"encoder.layer.*": eraser}),
        ):
            pass
        assert n_hooks(bert) == inside
        with unspot.hooks(bert, {"encoder.layer.1": eraser}):  # another module: no harm
            bert(**tokens)
    assert n_hooks(bert) == before


def test_two_patterns_for_one_module(bert, eraser):
    with pytest.raises(ValueError, match=r"two erasers for the module 'encoder.layer.0'"):
        unspot.hooks(bert, {"encoder.layer.*": eraser, "encoder.layer.0": eraser})


def test_an_error_in_the_block_removes_all_hooks(bert, eraser):
    before = n_hooks(bert)
    with pytest.raises(KeyError), unspot.hooks(bert, {"encoder.layer.*": eraser}):
        raise KeyError("mine")
    assert n_hooks(bert) == before


@pytest.mark.parametrize(
    ("positions", "needles"),
    [
        ("first", r"'first'.*'all', 'cls' or 'last'"),
        (torch.ones(3), r"shape \(3,\).*\(batch, length\)"),
    ],
)
def test_positions_that_do_not_exist(bert, eraser, positions, needles):
    with pytest.raises(ValueError, match=needles):
        unspot.hooks(bert, {"encoder.layer.0": eraser}, positions=positions)


def test_a_mask_of_another_batch(bert, tokens, eraser):
    mask = torch.ones(2, 6, dtype=torch.bool)
    with (
        pytest.raises(ValueError, match=r"\(2, 6\).*3 texts of 6 tokens.*a mask for each call"),
        unspot.hooks(bert, {"encoder.layer.0": eraser}, positions=mask),
    ):
        bert(**tokens)


def test_states_without_positions(bert, tokens, eraser):
    with (
        pytest.raises(ValueError, match=r"\(3, 16\).*'pooler'.*positions='all'"),
        unspot.hooks(bert, {"pooler": eraser}, positions="cls"),
    ):
        bert(**tokens)
