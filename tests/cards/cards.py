"""The cards: what QEMU calls them, and which of the kernel's modules drives them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    name: str
    device: str  # QEMU's device with its options
    module: str
    queues: int = 1
    processors: int = 1


CARDS = [
    # Two queues each way and a processor for each, as on a cloud machine. 6 vectors: one a queue and direction, one each for settings and control.
    Card("virtio", "virtio-net-pci,mq=on,vectors=6", "virtio_net", queues=2, processors=2),
    Card("e1000e", "e1000e", "e1000e"),
    Card("vmxnet3", "vmxnet3", "vmxnet3"),
]

# What every guest needs beside its card's driver.
COMMON_MODULES = ["virtio_pci", "virtio_console", "8021q"]
