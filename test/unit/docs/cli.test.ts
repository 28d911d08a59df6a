import { readFile } from 'node:fs/promises'
import path from 'node:path'
import prettier from 'prettier'
import { expect, test } from 'vitest'
import { cliMarkdown } from '../../../tasks/cli-markdown.ts'

test('docs/cli.md says what --help says; node tasks/cli-docs.ts brings it up to date', async () => {
  const file = path.resolve(import.meta.dirname, '../../../docs/cli.md')
  const options = await prettier.resolveConfig(file)
  expect(await readFile(file, 'utf8')).toBe(await prettier.format(cliMarkdown(), { ...options, filepath: file }))
})
