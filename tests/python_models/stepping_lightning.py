# SPDX-License-Identifier: Apache-2.0
"""LightningModules, on images of 1 x 8 x 8."""
import lightning

from stepping import Layers, cross_entropy, schedule_of


class Lit(Layers, lightning.LightningModule):
    def __init__(self, num_classes=10, width=24, optimizer="sgd", schedule=None):
        super().__init__()
        self.save_hyperparameters()
        self.make_layers(num_classes, width)

    def training_step(self, batch, batch_idx):
        x, y = batch
        output = self(x)
        loss = cross_entropy(output, y) + 1e-3 * self.into.weight.square().sum()
        self.log("train_acc", (output.argmax(1) == y).double().mean(), on_step=False, on_epoch=True, prog_bar=True)
        self.log_dict({"epoch_seen": float(self.current_epoch), "steps_seen": float(self.global_step)}, on_step=False, on_epoch=True)
        return {"loss": loss, "output": output.detach()}

    def validation_step(self, batch, batch_idx):
        x, y = batch
        output = self(x)
        self.log("val_loss", cross_entropy(output, y))
        self.log("val_acc", (output.argmax(1) == y).double().mean())

    def configure_optimizers(self):
        optimizer = self.optimizer_of(self.hparams.optimizer)
        if self.hparams.schedule is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": schedule_of(self.hparams.schedule, optimizer, self.trainer.estimated_stepping_batches)}

    def on_train_epoch_end(self):
        pass


class LateLayers(Lit):
    """Makes its layers where Lightning says that large models should, and has no forward()."""

    def make_layers(self, num_classes, width):
        self.sizes = num_classes, width

    def configure_model(self):
        super().make_layers(*self.sizes)

    def setup(self, stage):
        assert stage == "fit"


class LitWithHook(Lit):
    def configure_gradient_clipping(self, *_, **__):
        raise NotImplementedError
