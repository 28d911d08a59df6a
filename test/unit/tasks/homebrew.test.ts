import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { loadPrism } from '@ruby/prism'
import { expect, test } from 'vitest'
import { cask, formula } from '../../../tasks/package/homebrew.ts'

const release = {
  version: '1.2.3',
  downloads: 'https://downloads.example/v1.2.3',
  homepage: 'https://metalbar.example',
}
const commands = { 'darwin-arm64': 'a'.repeat(64), 'darwin-x64': 'b'.repeat(64) }
const images = { arm64: 'd'.repeat(64), x64: 'e'.repeat(64) }

/** What Ruby's own parser finds wrong. */
async function faults(text: string): Promise<string[]> {
  const parse = await loadPrism()
  return parse(text).errors.map(({ message }) => message)
}

test.each([
  ['formula', 'metal-agent.rb', formula(release, commands)],
  ['cask', 'metalbar.rb', cask(release, images)],
])('the %s is Ruby, and what was looked at when it was written', async (_, file, text) => {
  expect(await faults(text)).toEqual([])
  expect(text).toBe(await readFile(path.join(import.meta.dirname, 'homebrew', file), 'utf8'))
})

test('an address cannot become a part of the program', async () => {
  const text = cask({ ...release, homepage: 'https://x.example/"#{exit}\\' }, images)
  expect(await faults(text)).toEqual([])
  expect(text).toContain('homepage "https://x.example/\\"\\#{exit}\\\\"')
})

test('what is no Ruby is noticed', async () => {
  expect(await faults(formula(release, commands).replace('  end\nend', '  end'))).not.toEqual([])
})
