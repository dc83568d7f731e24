#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes events.golden beside this script with the real TensorBoard's own messages and record writer.

Made with: pip install tensorboard==2.21.0; python make_events.py
"""
import pathlib

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

EVENTS = [
    Event(wall_time=1795250970.25, file_version="brain.Event:2"),
    Event(wall_time=1795250970.25, step=30, session_log=SessionLog(status=SessionLog.START)),
    Event(wall_time=1795250971.5, step=127, summary=Summary(value=[
        Summary.Value(tag="train_loss", simple_value=2.302585092994046),
        Summary.Value(tag="learning_rate", simple_value=0.1),
        Summary.Value(tag="samples_per_second", simple_value=0.0)])),
    Event(wall_time=1795250972.0, step=128, summary=Summary(value=[
        Summary.Value(tag="val_loss", simple_value=float("inf"))])),
    Event(wall_time=1795250973.0, step=12345678901, summary=Summary(value=[
        Summary.Value(tag="t" * 200, simple_value=-1e-42)])),
]

with open(pathlib.Path(__file__).with_name("events.golden"), "wb") as file:
    writer = RecordWriter(file)
    for event in EVENTS:
        writer.write(event.SerializeToString())
