import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const check = path.join(import.meta.dirname, '../../../tasks/patterns.ts')

test('lint finds a pattern that takes more than linear time, as a literal or as a text, and one that cannot be seen', async () => {
  await using folder = await temporaryFolder()
  const lines = [
    String.raw`export const html = /^(?:\uFEFF|\s)*<(?:!doctype\s+html|html)/i`,
    String.raw`export const end = new RegExp('/+$')`,
    'export const put = (name: string) => new RegExp(`^(?:${name}|a)(a*)*$`)',
    'export const given = (pattern: string) => RegExp(pattern)',
    String.raw`export const fine = [/^\s*<html/, new RegExp('^a+$'), /(?<!\/)\/+$/]`,
  ]
  await writeFile(path.join(folder.dir, 'a.ts'), lines.join('\n'))
  const { status, stderr } = spawnSync(process.execPath, [check, folder.dir], { encoding: 'utf8' })
  const found = stderr.split('\n').filter((line) => line !== '')
  expect(found.map((line) => /a\.ts:(\d+): (.*) (?:takes|is slow)/.exec(line)?.slice(1))).toEqual([
    ['1', String.raw`/^(?:\uFEFF|\s)*<(?:!doctype\s+html|html)/i`],
    ['2', '//+$/'],
    ['3', '/^(?:x|a)(a*)*$/'],
    ['4', 'whether this pattern'],
  ])
  expect(status).toBe(1)
})
