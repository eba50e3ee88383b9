"""What dpo.toml is in TRL. Prints the loss and the margin of each update as a line of JSON.

    python3 trl_dpo.py [--newline]       # with it, the newline that the template writes behind an answer is trained
"""

import sys

import transformers
import trl
from trl_common import DIRECTORY, MODEL, Printed, read, tokenizer

settings = trl.DPOConfig(
    output_dir=DIRECTORY,
    model_init_kwargs={"dtype": "float32"},
    beta=0.1,
    max_length=256,
    num_train_epochs=1,  # `read` has both epochs, in our order
    per_device_train_batch_size=16,
    learning_rate=3e-4,
    lr_scheduler_type="linear",
    train_sampling_strategy="sequential",
    seed=1,
    bf16=False,
    gradient_checkpointing=False,
    use_cpu=True,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)


def conversational(row):
    """Texts are a user's message and an assistant's for Fulgurite; TRL would compare them without the model's template."""
    roles = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
    return {name: [{"role": role, "content": row[name]}] for name, role in roles.items()}


trainer = trl.DPOTrainer(
    model=MODEL,
    args=settings,
    train_dataset=read("pairs.jsonl", epochs=2).map(conversational),
    processing_class=tokenizer(ends_with_newline="--newline" in sys.argv),
    callbacks=[Printed("loss", "rewards/margins", "rewards/accuracies")],
)
trainer.remove_callback(transformers.PrinterCallback)
trainer.train()
