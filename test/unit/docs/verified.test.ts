import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { checks } from '../../../src/cli/selftest.ts'

const root = path.join(import.meta.dirname, '../../..')
const text = readFileSync(path.join(root, 'docs/verified.md'), 'utf8')

/** `a{b,c}` is two paths, each of which has to be there. */
function expanded(name: string): string[] {
  const [, before = '', choices, after = ''] = /^(.*?)\{([^}]*)\}(.*)$/.exec(name) ?? []
  if (choices === undefined) return [name]
  return choices.split(',').flatMap((choice) => expanded(`${before}${choice}${after}`))
}

const named = [...text.matchAll(/`((?:test|tasks|src|docs|bench)\/[^`\s]+)`/g)].flatMap(([, name = '']) =>
  expanded(name),
)

test('what is proven names the tests that prove it, and each is there', () => {
  const missing = [...new Set(named)].filter((name) => globSync(name, { cwd: root }).length === 0)
  expect([named.length > 50, missing]).toEqual([true, []])
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
