import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { loadPrism } from '@ruby/prism'
import { expect, test } from 'vitest'
import { homebrewFiles } from '../../../tasks/package/homebrew.ts'

const release = {
  version: '1.2.3',
  downloads: 'https://downloads.example/v1.2.3',
  homepage: 'https://metalbar.example',
}
const hashes: Readonly<Record<string, string>> = {
  'metal-agent-darwin-arm64.tar.gz': 'a'.repeat(64),
  'metal-agent-darwin-x64.tar.gz': 'b'.repeat(64),
  'Metalbar-1.2.3-arm64.dmg': 'd'.repeat(64),
  'Metalbar-1.2.3-x64.dmg': 'e'.repeat(64),
}
const hash = (name: string) => Promise.resolve(hashes[name] ?? `no hash of ${name}`)
const files = await homebrewFiles(release, hash)
const [[, formula] = ['', '']] = files

/** What Ruby's own parser finds wrong. */
async function faults(text: string): Promise<string[]> {
  const parse = await loadPrism()
  return parse(text).errors.map(({ message }) => message)
}

test.each(files)('%s is Ruby, and what was looked at when it was written', async (file, text) => {
  expect(await faults(text)).toEqual([])
  expect(text).toBe(await readFile(path.join(import.meta.dirname, 'homebrew', file), 'utf8'))
})

test('an address cannot become a part of the program', async () => {
  const hostile = { ...release, homepage: 'https://x.example/"#{exit}\\' }
  const [, [, text] = ['', '']] = await homebrewFiles(hostile, hash)
  expect(await faults(text)).toEqual([])
  expect(text).toContain('homepage "https://x.example/\\"\\#{exit}\\\\"')
})

test('what is no Ruby is noticed', async () => {
  expect(await faults(formula.replace('  end\nend', '  end'))).not.toEqual([])
})
