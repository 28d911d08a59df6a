import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { cliMarkdown } from './cli-markdown.ts'

/** Writes docs/cli.md from what `metal-agent --help` is made of. */
await writeFile(path.join(import.meta.dirname, '../docs/cli.md'), cliMarkdown())
