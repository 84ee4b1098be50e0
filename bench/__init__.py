# SPDX-License-Identifier: Apache-2.0
"""
Benchmarks, run as ``python -m bench.NAME``. They take times, so they are never tests;
`bench/README.md` says what each measures.
"""
