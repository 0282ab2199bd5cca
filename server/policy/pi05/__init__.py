"""π0.5 in plain torch: pictures, an instruction and a state in, chunks of actions out.

`factory.create` is what the configuration's `kind = "pi05"` calls; `options` lists its settings.
Nothing here needs lerobot, openpi or transformers: numpy, torch, safetensors and sentencepiece do.
"""
