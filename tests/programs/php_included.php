<?php
// SPDX-License-Identifier: Apache-2.0
// A file that php_stacks.php includes.
namespace Stacks;

probe();
array_map(function () {
    probe();
}, [1]);
