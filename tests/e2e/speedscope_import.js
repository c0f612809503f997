// SPDX-License-Identifier: Apache-2.0
/*
 * Speedscope's own importer, taken out of the web page that its npm package holds: prints what it
 * makes of files. node speedscope_import.js PACKAGE_DIRECTORY FILE...
 *
 * The page is one script. What it wants of a browser while it starts is answered by an object that
 * is anything; the function that imports a file is handed out by a line of ours before it.
 */
'use strict'
const fs = require('fs')
const path = require('path')
const vm = require('vm')

const [directory, ...files] = process.argv.slice(2)
const release = path.join(directory, 'dist', 'release')
const name = fs.readdirSync(release).find(file => /^speedscope-.*\.js$/.test(file))
const script = fs.readFileSync(path.join(release, name), 'utf8')
const entrance = /async function ([$\w]+)\([$\w]+,[$\w]+\)\{return\(await [$\w]+\)\.importProfilesFromArrayBuffer\(/
const found = entrance.exec(script)
if (!found) {
  console.error('the importer is not found in ' + name)
  process.exit(2)
}

const anything = new Proxy(function () {}, {
  get: (target, key) =>
    key === Symbol.toPrimitive ? () => '' : key === Symbol.iterator ? () => [][Symbol.iterator]() : anything,
  apply: () => anything,
  construct: () => anything,
  set: () => true,
})
const log = []
const world = { TextDecoder, TextEncoder, Uint8Array, ArrayBuffer, DataView, URL, setTimeout, performance }
for (const key of ['document', 'location', 'navigator', 'localStorage', 'history', 'XMLHttpRequest'])
  world[key] = anything
world.console = { log: text => log.push(text), warn: text => log.push(text), error: text => log.push(text) }
world.requestAnimationFrame = () => 0
world.addEventListener = () => {}
world.window = world.self = world
vm.createContext(world)
const opened = script.slice(0, found.index) + `;globalThis.importFile=${found[1]};` + script.slice(found.index)
try {
  vm.runInContext(opened, world)
} catch (error) {
  // What comes after the importer draws: nobody looks.
  if (!world.importFile) throw error
}

/* Every stack with its weight, as the importer has them. */
function describe(profile) {
  const stacks = {}
  const frames = {}
  const open = []
  let last = 0
  const take = value => {
    if (value > last && open.length > 0) {
      const stack = open.map(frame => frame.name).join(';')
      stacks[stack] = (stacks[stack] || 0) + (value - last)
    }
    last = value
  }
  profile.forEachCall(
    (node, value) => {
      take(value)
      open.push(node.frame)
      frames[node.frame.name] = { file: node.frame.file, line: node.frame.line }
    },
    (node, value) => {
      take(value)
      open.pop()
    },
  )
  return {
    name: profile.getName(),
    total: profile.getTotalWeight(),
    unit: profile.getWeightUnit(),
    stacks,
    frames,
  }
}

async function main() {
  const made = []
  for (const file of files) {
    log.length = 0
    const bytes = fs.readFileSync(file)
    const buffer = vm.runInContext(`new ArrayBuffer(${bytes.length})`, world)
    new Uint8Array(buffer).set(bytes)
    const group = await world.importFile(path.basename(file), buffer)
    made.push({ log: [...log], profiles: group ? group.profiles.map(describe) : null })
  }
  console.log(JSON.stringify(made))
}
main().catch(error => {
  console.error(error)
  process.exit(1)
})
