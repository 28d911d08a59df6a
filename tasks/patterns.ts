// Fails where a regular expression of the source takes more than linear time for some text, since one object of a stranger could then hold
// the agent up for minutes (ReDoS). Looks at src, or at the folder given. Patterns that were found clean
// are remembered beside the parts in the cache, since judging all of them takes a minute.
import { check, type Config } from '@makenowjust-labo/recheck'
import { createHash } from 'node:crypto'
import { appendFile, mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import ts from 'typescript'
import { cacheFolder } from './setup/cache.ts'

const root = path.join(import.meta.dirname, '..')
const [folder = path.join(root, 'src')] = process.argv.slice(2)
/** With a seed, so that the same pattern is judged alike every time; one that takes longer than this to judge passes, which a busy machine must not bring about. */
const config: Config = { checker: 'hybrid', timeout: 20_000, maxNFASize: 3_000, randomSeed: 1 }

/** Where a pattern comes from elsewhere, which no look at the source can judge, and why nobody is held up by it. */
const patternsFromElsewhere: ReadonlyMap<string, string> = new Map([
  ['src/agent-core/memory/estimate/pattern-worker.ts', 'on a thread that is ended after a while'],
  ['src/agent-core/power/sudoers.ts', 'what the administrator of this machine wrote'],
  ['src/cli/io.ts', 'made of literals'],
  ['src/renderer/log.ts', 'what the person types, escaped'],
])

interface Pattern {
  readonly source: string
  readonly flags: string
}

/** A line each; the checker's version and configuration are part of a mark. */
const remembered = path.join(cacheFolder(), 'clean-patterns')
const checker = await readFile(path.join(root, 'node_modules/@makenowjust-labo/recheck/package.json'), 'utf8')
const markOf = (key: string): string =>
  createHash('sha256')
    .update(JSON.stringify([checker, config, key]))
    .digest('hex')

const clean = new Set((await readFile(remembered, 'utf8').catch(() => '')).split('\n'))
const newlyClean: string[] = []
const verdicts = new Map<string, string | undefined>()

/** What is wrong with it; undefined = nothing. */
function problemOf({ source, flags }: Pattern): string | undefined {
  const key = `/${source}/${flags}`
  if (!clean.has(markOf(key)) && !verdicts.has(key)) {
    const found = check(source, flags, config)
    if (found.status === 'safe') newlyClean.push(markOf(key))
    const problem =
      found.status === 'vulnerable'
        ? `${key} takes ${found.complexity.type} time, as for ${found.attack.pumps.map(({ pump }) => JSON.stringify(pump)).join(' ')} repeated`
        : found.status === 'unknown' && found.error.kind !== 'timeout'
          ? `${key} cannot be judged: ${found.error.kind}`
          : undefined
    verdicts.set(key, problem)
  }
  return verdicts.get(key)
}

/** Of `new RegExp(…)`: its text, with an x where something is put in; undefined where it stands elsewhere. */
function textOf(node: ts.Expression | undefined): string | undefined {
  if (node === undefined) return undefined
  if (ts.isTaggedTemplateExpression(node)) return rawTextOf(node.template)
  if (ts.isStringLiteralLike(node)) return node.text
  if (ts.isTemplateExpression(node)) {
    return node.head.text + node.templateSpans.map(({ literal }) => `x${literal.text}`).join('')
  }
  return undefined
}

const rawTextOf = (template: ts.TemplateLiteral): string =>
  ts.isNoSubstitutionTemplateLiteral(template)
    ? (template.rawText ?? '')
    : (template.head.rawText ?? '') + template.templateSpans.map(({ literal }) => `x${literal.rawText ?? ''}`).join('')

/** Sentences, each with its line. */
function problemsIn(name: string, text: string): string[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)
  const problems: string[] = []
  const visit = (node: ts.Node): void => {
    const line = file.getLineAndCharacterOfPosition(node.getStart()).line + 1
    const tell = (problem: string | undefined): void => {
      if (problem !== undefined) problems.push(`${name}:${line}: ${problem}`)
    }
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      tell(problemOf({ source: node.text.slice(1, end), flags: node.text.slice(end + 1) }))
    }
    if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp') {
      const [pattern, flags] = node.arguments ?? []
      const source = textOf(pattern)
      if (source !== undefined) tell(problemOf({ source, flags: textOf(flags) ?? '' }))
      else if (!patternsFromElsewhere.has(name))
        tell('whether this pattern is slow cannot be seen: write it as a literal')
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return problems
}

const problems: string[] = []
for (const file of ts.sys.readDirectory(folder, ['.ts', '.tsx']).toSorted()) {
  problems.push(...problemsIn(path.relative(root, file), await readFile(file, 'utf8')))
}
if (newlyClean.length > 0) {
  await mkdir(path.dirname(remembered), { recursive: true })
  await appendFile(remembered, `${newlyClean.join('\n')}\n`)
}
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1
