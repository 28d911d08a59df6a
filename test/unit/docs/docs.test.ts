import { existsSync, globSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import prettier from 'prettier'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { doctorChecks } from '../../../src/agent-core/doctor/checks.ts'
import { MemoryBook } from '../../../src/agent-core/memory/book.ts'
import { defaultFraction, resolveBudget } from '../../../src/agent-core/memory/budget.ts'
import { flagTable } from '../../../src/cli/flags.ts'
import { checks } from '../../../src/cli/selftest.ts'
import { verbProgram } from '../../../src/cli/verbs.ts'
import { anchorOf } from '../../../src/contract/doctor.ts'
import { formatBytes } from '../../../src/contract/format.ts'
import { appFindings } from '../../../src/main/system/app-doctor.ts'
import { cliMarkdown } from '../../../tasks/cli-markdown.ts'
import { llmkubeFlagsMarkdown } from '../../../tasks/llmkube-flags-markdown.ts'
import { metricsMarkdown } from '../../../tasks/metrics-markdown.ts'
import { settingsMarkdown } from '../../../tasks/settings-markdown.ts'

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

describe('cli', () => {
  test('docs/cli.md says what --help says; node tasks/docs.ts brings it up to date', () =>
    expectUpToDate('cli.md', cliMarkdown()))

  test('docs/settings.md says what the table of settings says; node tasks/docs.ts brings it up to date', () =>
    expectUpToDate('settings.md', settingsMarkdown()))

  test('docs/metrics.md says what the table of metrics says; node tasks/docs.ts brings it up to date', () =>
    expectUpToDate('metrics.md', metricsMarkdown()))

  test('docs/llmkube-flags.md says of flags what the source says; node tasks/docs.ts brings it up to date', () =>
    expectUpToDate('llmkube-flags.md', llmkubeFlagsMarkdown()))

  async function expectUpToDate(name: string, text: string): Promise<void> {
    const file = path.resolve(import.meta.dirname, '../../../docs', name)
    const options = await prettier.resolveConfig(file)
    expect(await readFile(file, 'utf8')).toBe(await prettier.format(text, { ...options, filepath: file }))
  }
})

describe('memory', async () => {
  const page = await readFile(path.resolve(import.meta.dirname, '../../../docs/memory.md'), 'utf8')
  const gib = 2 ** 30

  function budgetOf(totalGib: number, gpuLimitGib?: number) {
    const result = resolveBudget({
      totalBytes: totalGib * gib,
      platform: 'darwin',
      ...(gpuLimitGib !== undefined && { gpuLimitBytes: gpuLimitGib * gib }),
    })
    if (!result.ok) throw new Error(result.message)
    return result.budget
  }

  test('the table of budgets in docs/memory.md is what the agent works out', () => {
    const rows = [...page.matchAll(/^\| (\d+) GiB +\| (\d+) % +\| ([\d.]+) GiB +\| ([\d.]+ GB) +\|$/gm)].map(
      ([, total, percent, budget, shown]) => ({
        total: Number(total),
        percent: Number(percent),
        budget: Number(budget),
        shown,
      }),
    )
    expect(rows.map(({ total }) => total)).toEqual([16, 24, 32, 36, 48, 64, 96, 128, 192, 512])
    expect(rows).toEqual(
      rows.map(({ total }) => {
        const { bytes } = budgetOf(total)
        return {
          total,
          percent: Math.round(defaultFraction(total * gib) * 100),
          budget: Number((bytes / gib).toFixed(1)),
          shown: formatBytes(bytes),
        }
      }),
    )
  })

  test('the worked examples in docs/memory.md are what the agent says', () => {
    const book = new MemoryBook(
      { budgetBytes: budgetOf(48).bytes, availableBytes: 40e9, pressure: 'normal' },
      () => undefined,
    )
    book.adopt({ key: 'ns/a', needBytes: 20e9, priority: 'normal' })
    const answer = book.admit({
      key: 'ns/b',
      uid: 'b',
      needBytes: 24e9,
      priority: 'normal',
      since: 0,
      enforcement: 'enforce',
    })
    const said = [budgetOf(48).how, budgetOf(128).how, budgetOf(128, 96).how, answer.admitted ? '' : answer.message]
    const quoted = [...page.matchAll(/(?:^> .*\n)+/gm)].map(([lines]) =>
      lines.slice(2).trimEnd().replaceAll('\n> ', ' '),
    )
    expect(quoted.filter((sentence) => said.includes(sentence))).toEqual(said)
  })
})

describe('from llmkube', () => {
  const page = readFileSync(path.join(root, 'docs/llmkube-commands.md'), 'utf8')
  const parsed = <T>(schema: z.ZodType<T>, name: string): T =>
    schema.parse(JSON.parse(readFileSync(path.join(import.meta.dirname, name), 'utf8')))
  const guide = parsed(z.array(z.string()), 'llmkube-guide-commands.json')
  /** By the command of a guide: the test that shows what the page says of it, or a reason why none does. */
  const shownBy = parsed(z.record(z.string(), z.string()), 'llmkube-commands.json')

  /** Undefined where the test that is named is there, or a reason is given. */
  function lack(command: string, shown: string | undefined): string | undefined {
    if (shown?.startsWith('reason: ')) return shown.length > 15 ? undefined : `${command} has no reason`
    const [, file = '', words = ''] = /^`(test\/[^`]+)`: (.{4,})$/.exec(shown ?? '') ?? []
    if (file === '') return `${command} names neither a test nor a reason`
    if (!existsSync(path.join(root, file))) return `${command} names ${file}, which is not there`
    return readFileSync(path.join(root, file), 'utf8').includes(words)
      ? undefined
      : `${file} has no "${words}" (${command})`
  }

  const onOneLine = page.replaceAll(/\n {2,}/g, ' ')
  const lines = [...onOneLine.matchAll(/^- (`.*)$/gm)].map(([, line = '']) => line)

  test('every line of docs/llmkube-commands.md has a test that is there, or a reason why there is none', () => {
    const commands = Object.keys(shownBy)
    expect(commands.length).toBeGreaterThan(60)
    expect(commands.map((command) => lack(command, shownBy[command])).filter((one) => one !== undefined)).toEqual([])
    expect(lines.filter((line) => !commands.some((command) => line.startsWith(`${command}: `)))).toEqual([])
    expect(lines).toHaveLength(commands.length)
  })

  test('every command of the guides of LLMKube has a line', () => {
    const missing = guide.filter((command) => !lines.some((line) => line.includes(command)))
    expect([guide.length > 50, missing]).toEqual([true, []])
  })

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

  test.each([
    ['neither', 'see elsewhere', 'names neither a test nor a reason'],
    ['a missing file', '`test/no/such.test.ts`: some words', 'which is not there'],
    ['a missing test', '`test/unit/docs/docs.test.ts`: no such\u2003words', 'has no "no such'],
    ['nothing', undefined, 'names neither a test nor a reason'],
  ])('a line with %s is noticed', (_, shown, sentence) => {
    expect(lack('`a`', shown)).toContain(sentence)
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

  test('every page can be read at one sitting, but for those that are generated', () => {
    const limits: Readonly<Record<string, number>> = { 'README.md': 4_000, 'docs/verified.md': 30_000 }
    const generated = ['docs/cli.md', 'docs/settings.md', 'CONTRIBUTING.md']
    const sizes = [...texts].filter(([name]) => !generated.includes(name))
    expect(sizes.length).toBeGreaterThan(20)
    expect(sizes.flatMap(([name, text]) => (Buffer.byteLength(text) > (limits[name] ?? 12_000) ? [name] : []))).toEqual(
      [],
    )
    expect(texts.get('README.md')?.split('\n').length).toBeLessThanOrEqual(60)
  })

  test('every link of a page leads to a file and a heading that are there', () => {
    expect([...texts].flatMap(([name, text]) => broken(name, text))).toEqual([])
    expect(
      broken('docs/a.md', '[b](no-such.md) [c](memory.md#no-such) [d](memory.md#budget) [e](../README.md)'),
    ).toEqual(['docs/a.md: no-such.md', 'docs/a.md: memory.md#no-such'])
  })

  /** `a{b,c}` is two paths, each of which has to be there. */
  function expanded(name: string): string[] {
    const [, before = '', choices, after = ''] = /^(.*?)\{([^}]*)\}(.*)$/.exec(name) ?? []
    if (choices === undefined) return [name]
    return choices.split(',').flatMap((choice) => expanded(`${before}${choice}${after}`))
  }

  const placesOf = (text: string): string[] =>
    [...text.matchAll(/`((?:test|tasks|src|docs|bench)\/[^`\s]+)`/g)].flatMap(([, name = '']) => expanded(name))

  test('every file of this repository that a page names is there', () => {
    const named = new Set([...texts.values()].flatMap(placesOf))
    expect([named.size > 100, [...named].filter((name) => globSync(name, { cwd: root }).length === 0)]).toEqual([
      true,
      [],
    ])
    expect(placesOf('`test/unit/{docs,none}/docs.test.ts` `README.md`')).toEqual([
      'test/unit/docs/docs.test.ts',
      'test/unit/none/docs.test.ts',
    ])
  })

  test('every page is linked from README or from another page', () => {
    const linked = [...texts].flatMap(([name, text]) =>
      [...text.matchAll(/\]\(([^)#\s]+\.md)/g)].map(([, link = '']) => path.join(path.dirname(name), link)),
    )
    expect(names.filter((name) => name.startsWith('docs/') && !linked.includes(name))).toEqual([])
  })

  test('every verb and flag that a page names is one of the command', () => {
    const named = [...texts]
      .filter(([name]) => name !== 'docs/cli.md')
      .flatMap(([name, text]) => commandsOf(text).map((command) => ({ name, command })))
    expect(named.length).toBeGreaterThan(200)
    expect(named.flatMap(({ name, command }) => unknownIn(command).map((what) => `${name}: ${what}`))).toEqual([])
    const written =
      'Say `metal-agent host-address`.\n\n```sh\n$ metal-agent status --nothing # why\nsudo metal-agent renew\n```\n'
    expect(commandsOf(written).flatMap(unknownIn)).toEqual([
      'metal-agent host-address',
      '--nothing of metal-agent status --nothing',
      'metal-agent renew',
    ])
  })
})

describe('troubleshooting', () => {
  test('every chapter names questions of the doctor, and none that it does not ask', () => {
    const page = texts.get('docs/troubleshooting.md') ?? ''
    const named = [...page.matchAll(/^Doctor: (.*)$/gm)].map(([, ids = '']) =>
      [...ids.matchAll(/`([a-z-]+)`/g)].map(([, id = '']) => id),
    )
    const asked = [
      ...doctorChecks.flatMap(([, checks]) => checks),
      ...appFindings({ loginItem: 'enabled', isHere: true, icon: 'shown' }),
    ].map(({ id }) => id)
    expect([named.length >= 11, named.flat().filter((id) => !asked.includes(id))]).toEqual([true, []])
    expect(named.filter((ids) => ids.length === 0)).toEqual([])
  })
})

describe('verified', () => {
  const text = readFileSync(path.join(root, 'docs/verified.md'), 'utf8')

  test('every claim names a test, and every test file that it names is there', () => {
    const section = /^## Claims\n(.*?)^## /ms.exec(text)?.[1] ?? ''
    const claims = section.split('\n').filter((line) => /^\| (?!claim|---|\*\*)/.test(line))
    expect(claims.length).toBeGreaterThan(60)
    expect(claims.filter((line) => !/`test\//.test(line))).toEqual([])
  })

  test('a person with a Mac has done in ten minutes what only a command and a look can show', () => {
    const section = /^### Nine minutes at the screen\n(.*?)^#/ms.exec(text)?.[1] ?? ''
    const seconds = [...section.matchAll(/^\|\s*\d+\s*\|\s*(\d+)\s*\|/gm)].map(([, given]) => Number(given))
    const atScreen = seconds.reduce((sum, one) => sum + one, 0)
    expect([seconds.length > 10, atScreen <= 9 * 60]).toEqual([true, true])
  })

  test('each question of the self-test is explained, and no other', () => {
    const section = /^### One minute: one command\n(.*?)^#/ms.exec(text)?.[1] ?? ''
    const lines = [...section.matchAll(/^\| (`[^|]*`) +\|/gm)].map(([, names = '']) => names)
    const explained = lines.flatMap((names) => [...names.matchAll(/`([^`]+)`/g)].map(([, id]) => id))
    expect(explained.toSorted()).toEqual(checks.map(({ id }) => id).toSorted())
  })

  test('what only a Mac shows of a package is a list in order, each line with its time', () => {
    const section = /^### The app's package\n(.*?)^#/ms.exec(text)?.[1] ?? ''
    const lines = [...section.matchAll(/^\|\s*(\d+)\s*\|\s*(\d+)\s*\|/gm)].map(([, line, minutes]) =>
      [line, minutes].map(Number),
    )
    expect(lines.map(([line]) => line)).toEqual(lines.map((_, index) => index + 1))
    const [all, withoutKey] = [lines, lines.slice(0, 5)].map((some) => some.reduce((sum, [, one = 0]) => sum + one, 0))
    expect([lines.length > 10, withoutKey, all]).toEqual([true, 16, 71])
    expect(section).toContain(
      'All together 71 minutes, of which the first five lines, which need no Developer ID, take 16.',
    )
  })
})
