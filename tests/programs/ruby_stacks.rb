# SPDX-License-Identifier: Apache-2.0
# Allocates under all kinds of stacks, and writes what Ruby itself says about each.
#
#     ruby_stacks.rb FILE
#
# The file gets [{"bytes": SIZE, "frames": [[LABEL, PATH, LINE], ...]}, ...], innermost first, without
# functions in C.
require "json"

NOTES = []

# Functions in C on the stacks. Ruby says that they are where their caller is.
NATIVE = %w[
  call catch collect each each_key each_with_index eval exec fetch fold gsub initialize inject instance_eval
  instance_exec load loop map max_by module_eval new next public_send require require_relative resume
  send __send__ sort sort_by step sum synchronize times upto yield <=> == method_missing select
  class_eval define_method extend first each_slice then each_entry reduce transform_values
].freeze

def functions(locations)
  kept = locations.each_with_index.reject do |location, i|
    outer = locations[i + 1]
    next location.path.nil? unless outer
    NATIVE.include?(location.label) && location.path == outer.path && location.lineno == outer.lineno
  end
  kept.map { |location, _| [location.label, location.path, location.lineno] }
end

def probe
  block = "x" * (100_000 + NOTES.size); line = __LINE__
  frames = functions(caller_locations(0))
  frames[0][2] = line
  NOTES << {bytes: block.bytesize, frames: frames}
  0
end

def recurse(depth)
  return probe if depth.zero?
  recurse(depth - 1)
end

def yields
  yield 1
end

def rescued
  raise "x"
rescue RuntimeError
  probe
else
  0
ensure
  probe
end

def retried
  tries ||= 0
  tries += 1
  raise ArgumentError if tries < 3
  probe
rescue ArgumentError
  retry
end

def default(value = probe, key: probe)
  value + key
end

class Base
  def over(value)
    probe + value
  end
end

class Derived < Base
  probe

  def over(value)
    super
  end

  def <=>(other)
    probe
    0
  end
  include Comparable

  def to_s
    probe
    "derived"
  end

  def method_missing(name, *arguments)
    name == :absent ? probe : super
  end

  def respond_to_missing?(*) = false

  def each
    yield probe
    yield 2
  end
  include Enumerable

  define_method(:defined) { |value| probe + value }

  class << self
    def of_class = probe
    probe
  end
end

module Mixed
  def self.extended(other)
    probe
  end
end

probe
recurse(0)
recurse(30)
[1, 2].each { probe }
[1, 2].map do |value|
  yields { |other| probe }
end
[2, 1].sort_by { |value| probe + value }
[3, 4, 5].max_by { |value| [value].sum { probe } }
2.times { |i| 1.upto(1) { probe } }
{a: 1}.each_key { probe }
{a: 1}.transform_values { probe }
Hash.new { |hash, key| hash[key] = probe }[:missing]
[1, 2].inject { |left, right| probe }
"abc".gsub(/b/) { probe.to_s }
loop do
  probe
  break
end
lambda { |value| probe }.call(1)
proc { yields { probe } }.()
method(:recurse).to_proc.call(2)
method(:recurse).unbind.bind(self).call(1)
[1].each(&:itself)
[1].each(&method(:recurse))
1.then { probe }
1.tap { probe }
send(:recurse, 1)
public_send(:instance_eval) { probe }
instance_exec(1) { |value| probe }
Object.class_eval { probe }
eval("probe")
eval("\n\nprobe", binding, "evaluated.rb", 40)
Object.module_eval("def evaluated\n  probe\nend")
evaluated
rescued
retried
default
default(key: 1)
catch(:thrown) { probe; throw :thrown }
catch(:thrown) { [1].each { begin; throw :thrown; ensure; probe; end } }
begin
  [1].each { raise "outer" }
rescue
  probe
end
derived = Derived.new
derived.over(1)
derived == Derived.new
derived.defined(1)
derived.absent
"#{derived}"
Derived.of_class
derived.sort
derived.each_slice(1) { probe }
derived.extend(Mixed)
Struct.new(:value) { def read = probe }.new(1).read
value = while true do break probe end
[1].each { |a| [2].each { |b| [3].each { |c| probe } } }

fiber = Fiber.new do |value|
  probe
  Fiber.yield yields { probe }
  recurse(3)
end
2.times { fiber.resume(1) }
outer = Fiber.new { Fiber.new { [1].each { probe } }.resume; probe }
outer.resume
numbers = Enumerator.new { |to| probe; to << 1; yields { probe }; to << 2 }
2.times { numbers.next }
numbers.size
lazy = (1..3).lazy.map { |value| probe }.first(2)

3.times.map { |i| Thread.new { recurse(i); yields { probe } } }.each(&:join)
Thread.new { Fiber.new { probe }.resume }.join
Thread.new { Thread.new { [1].map { probe } }.join; probe }.join

require_relative "ruby_required"
load File.join(__dir__, "ruby_required.rb")
Required.twice
$LOAD_PATH.unshift(__dir__)
$LOADED_FEATURES.reject! { |path| path.end_with?("ruby_required.rb") }
require "ruby_required"

# A long function: places of all parts of the index of lines.
def long(value)
  probe if value == 0
  value.to_i + 1
  value.to_i + 2
  value.to_i + 3
  value.to_i + 4
  value.to_i + 5
  value.to_i + 6
  value.to_i + 7
  value.to_i + 8
  value.to_i + 9
  probe if value == 10
  value.to_i + 11
  value.to_i + 12
  value.to_i + 13
  value.to_i + 14
  value.to_i + 15
  value.to_i + 16
  value.to_i + 17
  value.to_i + 18
  value.to_i + 19
  probe if value == 20
  value.to_i + 21
  value.to_i + 22
  value.to_i + 23
  value.to_i + 24
  value.to_i + 25
  value.to_i + 26
  value.to_i + 27
  value.to_i + 28
  value.to_i + 29
  probe if value == 30
  value.to_i + 31
  value.to_i + 32
  value.to_i + 33
  value.to_i + 34
  value.to_i + 35
  value.to_i + 36
  value.to_i + 37
  value.to_i + 38
  value.to_i + 39
  probe if value == 40
  value.to_i + 41
  value.to_i + 42
  value.to_i + 43
  value.to_i + 44
  value.to_i + 45
  value.to_i + 46
  value.to_i + 47
  value.to_i + 48
  value.to_i + 49
  probe if value == 50
  value.to_i + 51
  value.to_i + 52
  value.to_i + 53
  value.to_i + 54
  value.to_i + 55
  value.to_i + 56
  value.to_i + 57
  value.to_i + 58
  value.to_i + 59
  probe if value == 60
  value.to_i + 61
  value.to_i + 62
  value.to_i + 63
  value.to_i + 64
  value.to_i + 65
  value.to_i + 66
  value.to_i + 67
  value.to_i + 68
  value.to_i + 69
  probe if value == 70
  value.to_i + 71
  value.to_i + 72
  value.to_i + 73
  value.to_i + 74
  value.to_i + 75
  value.to_i + 76
  value.to_i + 77
  value.to_i + 78
  value.to_i + 79
  probe if value == 80
  value.to_i + 81
  value.to_i + 82
  value.to_i + 83
  value.to_i + 84
  value.to_i + 85
  value.to_i + 86
  value.to_i + 87
  value.to_i + 88
  value.to_i + 89
  probe if value == 90
  value.to_i + 91
  value.to_i + 92
  value.to_i + 93
  value.to_i + 94
  value.to_i + 95
  value.to_i + 96
  value.to_i + 97
  value.to_i + 98
  value.to_i + 99
  probe if value == 100
  value.to_i + 101
  value.to_i + 102
  value.to_i + 103
  value.to_i + 104
  value.to_i + 105
  value.to_i + 106
  value.to_i + 107
  value.to_i + 108
  value.to_i + 109
  probe if value == 110
  value.to_i + 111
  value.to_i + 112
  value.to_i + 113
  value.to_i + 114
  value.to_i + 115
  value.to_i + 116
  value.to_i + 117
  value.to_i + 118
  value.to_i + 119
  probe if value == 120
  value.to_i + 121
  value.to_i + 122
  value.to_i + 123
  value.to_i + 124
  value.to_i + 125
  value.to_i + 126
  value.to_i + 127
  value.to_i + 128
  value.to_i + 129
  probe if value == 130
  value.to_i + 131
  value.to_i + 132
  value.to_i + 133
  value.to_i + 134
  value.to_i + 135
  value.to_i + 136
  value.to_i + 137
  value.to_i + 138
  value.to_i + 139
  probe if value == 140
  value.to_i + 141
  value.to_i + 142
  value.to_i + 143
  value.to_i + 144
  value.to_i + 145
  value.to_i + 146
  value.to_i + 147
  value.to_i + 148
  value.to_i + 149
  value
end
(0...150).step(10) { |value| long(value) }

File.write(ARGV[0], JSON.generate(NOTES))
puts "#{NOTES.size} stacks"
