# SPDX-License-Identifier: Apache-2.0
# Code that ruby_stacks.rb requires and loads: its frames are below those of `require`.
probe

class Required
  probe
  def self.twice
    2.times { probe }
  end
end
