# SPDX-License-Identifier: Apache-2.0
"""Times a step of a masked language model of BERT's shapes on one batch that stays on the device. Uses Hugging Face's network, bf16 and
fused AdamW."""
import os
import sys

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import torch  # noqa: E402

import peer  # noqa: E402

try:
    from transformers import BertConfig, BertForMaskedLM
except ImportError:
    peer.say(missing="transformers")
    sys.exit()

asked = peer.arguments(mode="eager", width=768, layers=12, heads=12, intermediate=3072, tokens=128, batch=256, window=10,
                       repeats=6, warm=10)
VOCABULARY = 257
torch.manual_seed(1)
peer.allow_tf32()
config = BertConfig(vocab_size=VOCABULARY, hidden_size=asked.width, num_hidden_layers=asked.layers, num_attention_heads=asked.heads,
                    intermediate_size=asked.intermediate, max_position_embeddings=512, hidden_dropout_prob=0.1,
                    attention_probs_dropout_prob=0.1, pad_token_id=None)
net = BertForMaskedLM(config).to(asked.device).train()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
text = torch.randint(VOCABULARY, (asked.batch, asked.tokens), device=asked.device)
target = torch.where(torch.rand_like(text, dtype=torch.float) < 0.15, text, -100)
forward = peer.compiled(net, asked.mode, asked.device)


def step():
    optimizer.zero_grad()
    with torch.autocast(asked.device, torch.bfloat16):
        logits = forward(input_ids=text).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


peer.say(parameters=sum(each.numel() for each in net.parameters()),
         **peer.measured(step, asked.device, asked.window, asked.repeats, asked.warm))
