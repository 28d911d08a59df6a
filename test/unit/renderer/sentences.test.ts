import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

const source = join(import.meta.dirname, '../../../src/renderer')

/** Attributes that a person reads or hears. */
const readAttributes: ReadonlySet<string> = new Set([
  ...[
    'label',
    'text',
    'copyLabel',
    'aria-label',
    'aria-description',
    'aria-valuetext',
    'aria-roledescription',
    'alt',
    'title',
  ],
  ...['placeholder', 'help', 'problem', 'name', 'value', 'textValue'],
])

/** What a person would read of a file although it stands in no file of words. */
function sentencesIn(name: string, text: string): string[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX)
  const found: string[] = []
  const hasLetters = (words: string) => /\p{L}/u.test(words)
  const add = (node: ts.Node, words: string) => {
    if (!hasLetters(words)) return
    found.push(`${name}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1} ${words.trim()}`)
  }
  /** Of an expression whose value is shown: not what is compared in it, looked up by it, or given on by it. */
  const lookInShown = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node)) add(node, node.text)
    else if (ts.isTemplateExpression(node)) {
      for (const part of [node.head, ...node.templateSpans.map(({ literal }) => literal)]) add(node, part.text)
    } else if (ts.isConditionalExpression(node)) [node.whenTrue, node.whenFalse].forEach(lookInShown)
    else if (ts.isParenthesizedExpression(node)) lookInShown(node.expression)
    else if (ts.isBinaryExpression(node)) {
      const { kind } = node.operatorToken
      if (kind === ts.SyntaxKind.PlusToken || kind === ts.SyntaxKind.QuestionQuestionToken) lookInShown(node.left)
      if (kind !== ts.SyntaxKind.EqualsEqualsEqualsToken && kind !== ts.SyntaxKind.ExclamationEqualsEqualsToken)
        lookInShown(node.right)
    }
  }
  const look = (node: ts.Node): void => {
    if (ts.isJsxText(node)) add(node, node.text)
    else if (ts.isJsxExpression(node) && node.expression && !ts.isJsxAttribute(node.parent))
      lookInShown(node.expression)
    else if (ts.isJsxAttribute(node) && readAttributes.has(node.name.getText()) && node.initializer) {
      const { initializer } = node
      if (ts.isStringLiteral(initializer)) add(initializer, initializer.text)
      else if (ts.isJsxExpression(initializer) && initializer.expression) lookInShown(initializer.expression)
    }
    ts.forEachChild(node, look)
  }
  look(file)
  return found
}

test('every sentence that a person reads stands in a file of words', () => {
  const files = globSync('**/*.tsx', { cwd: source })
  expect(files.flatMap((name) => sentencesIn(name, readFileSync(join(source, name), 'utf8')))).toEqual([])
})

test.for([
  ['<p>Try now</p>', 'Try now'],
  ["<p>{isGone ? 'No agent' : words.live}</p>", 'No agent'],
  ['<p>{`For ${age}`}</p>', 'For'],
  ["<Button label={name ?? 'Stop it'} />", 'Stop it'],
  ['<section aria-label="Log" />', 'Log'],
])('%s is seen as such a sentence', ([code, sentence]) => {
  expect(sentencesIn('view.tsx', `const view = () => ${code ?? ''}`)).toEqual([`view.tsx:1 ${sentence ?? ''}`])
})

test.for([
  "<p className={styles['text']} data-state={a ? 'on' : 'off'}>{name} · {count}</p>",
  "<p>{kind === 'gap' && text}</p>",
])('%s says nothing itself', (code) => {
  expect(sentencesIn('view.tsx', `const view = () => ${code}`)).toEqual([])
})

/** What is pasted into a terminal. */
const commands: ReadonlySet<string> = new Set(['first-run.ts', 'first-service.ts'])

/** Of code that draws nothing: every text of two words or more, but for what a person who develops Metalbar is told. */
function sentencesInCode(name: string, text: string): string[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TS)
  const found: string[] = []
  const look = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && node.expression.getText() === 'Error') return
    const isText =
      ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddle(node) || ts.isTemplateTail(node)
    if (isText && /\p{Lu}\p{L}*[ -]\p{L}|\p{L} \p{L}+ \p{L}/u.test(node.text)) {
      found.push(`${name}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1} ${node.text.trim()}`)
    }
    ts.forEachChild(node, look)
  }
  look(file)
  return found
}

test('code that draws nothing takes its sentences from the files of words as well', () => {
  const files = globSync('**/*.ts', { cwd: source }).filter((name) => !name.startsWith('words/') && !commands.has(name))
  expect(files.flatMap((name) => sentencesInCode(name, readFileSync(join(source, name), 'utf8')))).toEqual([])
})

test.for([
  ["const problem = 'A name is missing.'", 'A name is missing.'],
  ['const problem = `This is ${what} only.`', 'This is'],
  ["throw new LinkError('gone', 'Nobody answers here.')", 'Nobody answers here.'],
])('%s is a sentence for a person', ([code, sentence]) => {
  expect(sentencesInCode('code.ts', code ?? '')).toEqual([`code.ts:1 ${sentence ?? ''}`])
})

test.for(["throw new Error('A part is drawn outside of it.')", "send('content-type: application/json')"])(
  '%s is none',
  (code) => {
    expect(sentencesInCode('code.ts', code)).toEqual([])
  },
)

test('no file of words is longer than a person reads through', () => {
  const files = globSync('words/*.ts', { cwd: source })
  const lengths = files.map((name) => [name, readFileSync(join(source, name), 'utf8').split('\n').length] as const)
  expect(lengths.filter(([, length]) => length > 500)).toEqual([])
})
