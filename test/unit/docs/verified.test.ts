import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

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
