import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

// Fails where the source, the tests or the pages outgrow the budget of package.json: what is added is paid for by what goes.
const root = path.join(import.meta.dirname, '..')
const { budget } = z
  .object({ budget: z.object({ src: z.number(), test: z.number(), pages: z.number(), docs: z.number() }) })
  .parse(JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')))

const texts = (pattern: string): string[] =>
  globSync(pattern, { cwd: root }).map((name) => readFileSync(path.join(root, name), 'latin1'))
const lines = (pattern: string): number => texts(pattern).reduce((sum, text) => sum + text.split('\n').length - 1, 0)

const pages = texts('docs/*.md')
const sizes = [
  { name: 'src', size: lines('src/**/*.{ts,tsx}'), unit: 'lines of TypeScript' },
  { name: 'test', size: lines('test/**/*.{ts,tsx}'), unit: 'lines of TypeScript' },
  { name: 'pages', size: pages.length, unit: 'pages in docs' },
  { name: 'docs', size: pages.join('').length, unit: 'bytes in docs' },
] as const

for (const { name, size, unit } of sizes) {
  if (size <= budget[name]) continue
  console.error(`${name}: ${size} ${unit}, and the budget in package.json is ${budget[name]}.`)
  process.exitCode = 1
}
