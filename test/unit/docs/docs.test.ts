import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import { flagTable } from '../../../src/cli/flags.ts'
import { verbProgram } from '../../../src/cli/verbs.ts'
import { anchorOf } from '../../../src/contract/doctor.ts'
import { generatedPages } from '../../../tasks/docs.ts'

const silent = { write: () => undefined }
const defaults = { modelStore: '/models', stateDir: '/state' }
const io = { stdout: silent, stderr: silent, env: {}, homeDir: '/', temporaryDir: '/tmp', cwd: '/' }
const program = verbProgram(
  { io: { ...io, platform: 'darwin', windowFolder: '' }, defaultStateDir: '/state', end: () => undefined },
  defaults,
)
const flags = new Set(Object.keys(flagTable(defaults)))

/** What of `metal-agent WORD …` the command does not know; a word in capitals stands for a value. */
function unknownIn(command: string): string[] {
  const words = command.split(/\s+/).slice(1)
  let verb = program
  while (verb.commands.length > 0 && words.length > 0 && !words[0]?.startsWith('-')) {
    const next = verb.commands.find((one) => one.name() === words[0])
    if (!next) return [`metal-agent ${words[0]}`]
    verb = next
    words.shift()
  }
  return words.flatMap((word) => {
    const [option = ''] = /^--?[a-z][\w-]*/.exec(word) ?? []
    if (option === '' || verb.options.some(({ long, short }) => option === long || option === short)) return []
    return flags.has(option.replace(/^--?/, '')) ? [] : [`${option} of ${command}`]
  })
}

const root = path.join(import.meta.dirname, '../../..')

const names = [...['README.md', 'CONTRIBUTING.md'], ...globSync('docs/*.md', { cwd: root }).toSorted()]
const texts = new Map(names.map((name) => [name, readFileSync(path.join(root, name), 'utf8')]))

test('the lists that pages have of the source are as it says; node tasks/docs.ts brings them up to date', async () => {
  const pages = await generatedPages()
  expect(pages.length).toBeGreaterThan(2)
  for (const { text, wanted } of pages) expect(text).toBe(wanted)
})

describe('from llmkube', () => {
  test.each([
    ['install-metal-agent', 'metal-agent install -- --namespace team-a'],
    ['uninstall-metal-agent', 'metal-agent uninstall --yes'],
    ['install-powermetrics-sudo', 'metal-agent power install'],
    ['uninstall-powermetrics-sudo', 'metal-agent power remove'],
  ])('make %s of the guides is a verb of this command', async (target, line) => {
    const words = [
      '--dry-run',
      '-o',
      'build-metal-agent',
      target,
      'FLAGS=--namespace team-a',
      'METAL_AGENT=metal-agent',
    ]
    // Whatever make runs this test.
    const env = { MAKEFLAGS: undefined, MAKELEVEL: undefined }
    expect((await execa('make', words, { cwd: root, env })).stdout).toBe(line)
  })
})

describe('pages', () => {
  const withoutBlocks = (text: string): string => text.replaceAll(/^( *)(```|~~~)[^]*?^\1\2$/gm, '')
  const anchorsOf = (text: string): string[] =>
    [...withoutBlocks(text).matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) => anchorOf(title))

  /** What a link of the page leads to that is not there. */
  function broken(name: string, text: string): string[] {
    const links = [...withoutBlocks(text).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
    return links.flatMap((link) => {
      if (/^[a-z]+:/.test(link)) return []
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? name : path.join(path.dirname(name), file)
      if (!existsSync(path.join(root, target))) return [`${name}: ${link}`]
      if (anchor === undefined) return []
      return anchorsOf(readFileSync(path.join(root, target), 'utf8')).includes(anchor) ? [] : [`${name}: ${link}`]
    })
  }

  /** Every `metal-agent …` of inline code, and of the lines of a block that a person would type. */
  function commandsOf(text: string): string[] {
    const inline = [...withoutBlocks(text).matchAll(/`(?:\$ )?(?:sudo )?(?:bin\/)?(metal-agent\s[^`]+)`/g)]
    const blocks = [...text.matchAll(/^( *)```(?:sh)?\n([^]*?)^\1```$/gm)].map(([, , lines = '']) => lines)
    const typed = [...blocks.join('\n').matchAll(/^\s*(?:\$ )?(?:sudo )?(?:\S*\/)?(metal-agent [^\n]*)$/gm)]
    return [...inline, ...typed].map(([, command = '']) => command.replace(/(?: +#| \||;| &&| \+|, ).*$/s, '').trim())
  }

  test('every link of a page leads to a file and a heading that are there', () => {
    expect([...texts].flatMap(([name, text]) => broken(name, text))).toEqual([])
  })

  test('every verb and flag that a page names is one of the command', () => {
    const named = [...texts]
      .filter(([name]) => name !== 'docs/cli.md')
      .flatMap(([name, text]) => commandsOf(text).map((command) => ({ name, command })))
    expect(named.length).toBeGreaterThan(100)
    expect(named.flatMap(({ name, command }) => unknownIn(command).map((what) => `${name}: ${what}`))).toEqual([])
  })
})

test('every verb and flag that a sentence of the source names is one of the command', () => {
  const files = globSync('src/**/*.{ts,tsx}', { cwd: root }).map((name) => readFileSync(path.join(root, name), 'utf8'))
  // What a sentence says of the command or of a verb is no further word of it.
  const word = /(?: (?!(?:and|for|gateway|in|is|lists|of|on|says?|serves|shows|stops|--help)\b)(?:--?)?[a-z][a-z-]*)/
  const named = files.flatMap((text) =>
    [...text.matchAll(new RegExp(`metal-agent${word.source}+`, 'g'))].map(([command]) => command),
  )
  expect(named.length).toBeGreaterThan(80)
  expect(named.flatMap(unknownIn)).toEqual([])
})
