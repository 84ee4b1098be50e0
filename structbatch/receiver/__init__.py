# SPDX-License-Identifier: Apache-2.0
"""
A small HTTP endpoint that takes events, counts them by an id that the application gave them, and fails on demand.

It runs in a process of its own (``python -m structbatch.receiver``), so that what it says about loss and repetition
does not come from the library that it judges.
"""
