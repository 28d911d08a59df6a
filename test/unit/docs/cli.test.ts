import { readFile } from 'node:fs/promises'
import path from 'node:path'
import prettier from 'prettier'
import { expect, test } from 'vitest'
import { cliMarkdown } from '../../../tasks/cli-markdown.ts'
import { fromLlmkubeMarkdown } from '../../../tasks/from-llmkube-markdown.ts'
import { metricsMarkdown } from '../../../tasks/metrics-markdown.ts'
import { settingsMarkdown } from '../../../tasks/settings-markdown.ts'

test('docs/cli.md says what --help says; node tasks/docs.ts brings it up to date', () =>
  expectUpToDate('cli.md', cliMarkdown()))

test('docs/settings.md says what the table of settings says; node tasks/docs.ts brings it up to date', () =>
  expectUpToDate('settings.md', settingsMarkdown()))

test('docs/metrics.md says what the table of metrics says; node tasks/docs.ts brings it up to date', () =>
  expectUpToDate('metrics.md', metricsMarkdown()))

test('docs/from-llmkube.md says of flags and metrics what the source says; node tasks/docs.ts brings it up to date', async () => {
  const page = await readFile(path.resolve(import.meta.dirname, '../../../docs/from-llmkube.md'), 'utf8')
  await expectUpToDate('from-llmkube.md', fromLlmkubeMarkdown(page))
})

async function expectUpToDate(name: string, text: string): Promise<void> {
  const file = path.resolve(import.meta.dirname, '../../../docs', name)
  const options = await prettier.resolveConfig(file)
  expect(await readFile(file, 'utf8')).toBe(await prettier.format(text, { ...options, filepath: file }))
}
