import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import prettier from 'prettier'
import { cliMarkdown } from './cli-markdown.ts'
import { llmkubeFlagsMarkdown } from './llmkube-flags-markdown.ts'
import { metricsMarkdown } from './metrics-markdown.ts'
import { settingsMarkdown } from './settings-markdown.ts'

const docs = path.join(import.meta.dirname, '../docs')

/** Writes the pages that are made of the source. */
for (const [name, text] of [
  ['cli.md', cliMarkdown()],
  ['llmkube-flags.md', llmkubeFlagsMarkdown()],
  ['metrics.md', metricsMarkdown()],
  ['settings.md', settingsMarkdown()],
] as const) {
  const file = path.join(docs, name)
  const options = await prettier.resolveConfig(file)
  await writeFile(file, await prettier.format(text, { ...options, filepath: file }))
}
