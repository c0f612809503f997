<?php
// SPDX-License-Identifier: Apache-2.0
// php_stacks.php NOTES: allocates large strings in all kinds of PHP code, and writes to NOTES what
// PHP itself says of each stack: function, file and line, innermost first.
namespace Stacks;

$size = 100_000;
$notes = [];

function note(int $bytes, int $line): void
{
    global $notes;
    [$frames, $file] = [[['str_repeat', '', 0]], __FILE__];
    foreach (array_slice(debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS), 1) as $entry) {
        $unnamed = ['include' => '{main}', 'eval' => '{eval}'];
        $name = $unnamed[$entry['function']] ?? $entry['function'];
        $class = strtok($entry['class'] ?? '', "\0"); // what follows tells anonymous ones apart
        $frames[] = [$class ? "$class::$name" : $name, $file, $line];
        [$file, $line] = [$entry['file'] ?? '', $entry['line'] ?? 0];
    }
    if ($line > 0)
        $frames[] = ['{main}', $file, $line];
    $notes[] = ['bytes' => $bytes, 'frames' => $frames];
}

function probe(): int
{
    global $size;
    $size += 16;
    $text = str_repeat('x', $size); $line = __LINE__;
    note($size, $line);
    return strlen($text);
}

class Shape
{
    public function __construct(private int $left) {}

    public function method(): int
    {
        return probe();
    }

    public static function of_class(): int
    {
        return probe();
    }

    public function __call(string $name, array $arguments): int
    {
        return probe();
    }

    public function __toString(): string
    {
        return (string) probe();
    }

    public function __invoke(int $a, int $b): int
    {
        if ($this->left-- > 0)
            probe();
        return $a <=> $b;
    }

    public function __destruct()
    {
        if ($this->left < 0)
            probe();
    }
}

trait Loud
{
    public function shout(): int
    {
        return probe();
    }
}

class Voice extends Shape
{
    use Loud;

    public function method(): int
    {
        return parent::method() +
            probe();
    }
}

function numbers(): \Generator
{
    probe();
    yield 1;
    yield from more_numbers();
    probe();
}

function more_numbers(): \Generator
{
    yield 2;
    probe();
    yield 3;
}

function deep(int $left): int
{
    return $left > 0 ? deep($left - 1) : probe();
}

function fails(): void
{
    try {
        probe();
        throw new \RuntimeException('expected');
    } finally {
        probe();
    }
}

probe();
$shape = new Shape(2);
$shape->method();
Shape::of_class();
$shape->no_such_method(1);
"$shape";
(new Voice(0))->method();
(new Voice(0))->shout();
$items = [3, 1, 2];
usort($items, $shape);
array_map(fn($item) => $item > 1 ? probe() : 0, $items);
array_map(function ($item) { return array_sum(array_map(fn($x) => probe(), [$item])); }, [1, 2]);
call_user_func([$shape, 'method']);
call_user_func_array('Stacks\probe', []);
foreach (numbers() as $number)
    probe();
deep(20);
try {
    fails();
} catch (\RuntimeException $error) {
    probe();
}
$object = new class { public function inside(): int { return probe(); } };
$object->inside();
eval('namespace Stacks; probe(); function made(): int { return probe(); }');
made();
include __DIR__ . '/php_included.php';
$gone = new Shape(-1);
unset($gone, $shape);
preg_replace_callback('/b/', fn($match) => (string) probe(), 'abcb');
spl_autoload_register(function ($name) { probe(); });
class_exists('Stacks\NoSuchClass');
$items = null;
set_error_handler(function ($level, $message) { probe(); return true; });
echo $no_such_variable;
if (class_exists('Fiber', false)) {
    $fiber = new \Fiber(function () {
        probe();
        \Fiber::suspend(1);
        probe();
    });
    $fiber->start();
    probe();
    $fiber->resume();
}
register_shutdown_function(function () {
    global $argv, $notes;
    probe();
    file_put_contents($argv[1], json_encode($notes));
    echo count($notes), " stacks\n";
});
