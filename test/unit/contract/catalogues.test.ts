import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'

const source = join(import.meta.dirname, '../../../src')

/** The names by which one text is reached in its catalogue; `*` stands for whatever a variable names. */
type Place = readonly string[]

interface Catalogue {
  readonly name: string
  readonly texts: readonly Place[]
  readonly hasShape: boolean
}

const parsed = (name: string, text: string) => ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)

/** Every object that a file of words exports. */
function cataloguesIn(file: ts.SourceFile): Catalogue[] {
  const exported = file.statements
    .filter(ts.isVariableStatement)
    .filter(({ modifiers }) => modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
  return exported
    .flatMap(({ declarationList }) => [...declarationList.declarations])
    .flatMap(({ name, initializer }) => {
      const object = initializer && withoutTypes(initializer)
      if (!object || !ts.isObjectLiteralExpression(object)) return []
      const hasShape = / as const satisfies Words(?:<[^>]*>)?$/.test(initializer.getText())
      return [{ name: name.getText(), texts: textsIn(object), hasShape }]
    })
}

const withoutTypes = (node: ts.Expression): ts.Expression =>
  ts.isSatisfiesExpression(node) || ts.isAsExpression(node) ? withoutTypes(node.expression) : node

const textsIn = (object: ts.ObjectLiteralExpression): Place[] =>
  object.properties.flatMap((property) => {
    if (ts.isSpreadAssignment(property)) {
      const spread = withoutTypes(property.expression)
      return ts.isObjectLiteralExpression(spread) ? textsIn(spread) : []
    }
    const key = ts.isStringLiteralLike(property.name) ? property.name.text : property.name.getText()
    const value = ts.isPropertyAssignment(property) ? withoutTypes(property.initializer) : undefined
    return value && ts.isObjectLiteralExpression(value) ? textsIn(value).map((place) => [key, ...place]) : [[key]]
  })

/** What a file takes of a catalogue, also by names that it gives to parts of it. */
function usesIn(file: ts.SourceFile, catalogue: string): Place[] {
  const uses: Place[] = []
  const given = new Map<string, Place[]>([[catalogue, [[]]]])
  const give = (pattern: ts.BindingName, place: Place): void => {
    if (ts.isIdentifier(pattern)) {
      const places = given.get(pattern.text) ?? []
      if (!places.some((known) => known.join() === place.join())) given.set(pattern.text, [...places, place])
      return
    }
    for (const element of pattern.elements) {
      if (ts.isOmittedExpression(element)) continue
      const { dotDotDotToken, propertyName, name } = element
      give(name, dotDotDotToken ? place : [...place, keyOf(propertyName ?? name)])
    }
  }
  const look = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isTypeNode(node)) return
    if (ts.isIdentifier(node) && isUse(node)) {
      for (const start of given.get(node.text) ?? []) {
        const { end, place } = reached(node, start)
        if (ts.isVariableDeclaration(end.parent) && end.parent.initializer === end) give(end.parent.name, place)
        else uses.push(place)
      }
    }
    ts.forEachChild(node, look)
  }
  // A name may be given below its use, in a function.
  for (let known = 0; known !== given.size;) {
    known = given.size
    look(file)
  }
  return uses
}

const keyOf = (name: ts.PropertyName | ts.BindingName): string =>
  ts.isStringLiteralLike(name) ? name.text : name.getText()

/** Not where a name is declared, or is that of a property. */
const isUse = (node: ts.Identifier): boolean => {
  const { parent } = node
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node
  if (ts.isPropertyAssignment(parent)) return parent.initializer === node
  return !(ts.isVariableDeclaration(parent) && parent.name === node) && !ts.isBindingElement(parent)
}

function reached(node: ts.Node, start: Place): { readonly end: ts.Node; readonly place: Place } {
  const { parent } = node
  if (ts.isPropertyAccessExpression(parent) && parent.expression === node)
    return reached(parent, [...start, parent.name.text])
  if (ts.isElementAccessExpression(parent) && parent.expression === node) {
    const { argumentExpression: key } = parent
    return reached(parent, [...start, ts.isStringLiteralLike(key) ? key.text : '*'])
  }
  return { end: node, place: start }
}

/** Whoever takes a part takes all of it; what follows a text is a method of it. */
const takes = (use: Place, text: Place): boolean =>
  use.every((key, at) => key === '*' || text[at] === undefined || key === text[at])

/** The window and the app have catalogues of their own; those of the contract are for all. */
const areas = ['contract', 'main', 'renderer'] as const
const files = globSync('**/*.{ts,tsx}', { cwd: source }).map((name) => {
  const text = readFileSync(join(source, name), 'utf8')
  return { name, text, file: parsed(name, text) }
})
const catalogues = areas.flatMap((area) =>
  files
    .filter(({ name }) => name === `${area}/words.ts` || name.startsWith(`${area}/words/`))
    .flatMap(({ file }) => cataloguesIn(file).map((catalogue) => ({ area, file: file.fileName, ...catalogue }))),
)

test('every catalogue of texts has the shape that a translation takes', () => {
  expect(catalogues.length).toBeGreaterThan(40)
  expect(catalogues.filter(({ hasShape }) => !hasShape).map(({ file, name }) => `${file} ${name}`)).toEqual([])
})

test('every text of every catalogue is said somewhere', () => {
  const unsaid = catalogues.flatMap(({ area, file, name, texts }) => {
    const readers = files.filter((one) => area === 'contract' || one.name.startsWith(`${area}/`))
    const uses = readers.filter(({ text }) => text.includes(name)).flatMap((one) => usesIn(one.file, name))
    return texts
      .filter((text) => !uses.some((use) => takes(use, text)))
      .map((text) => `${file} ${name}.${text.join('.')}`)
  })
  expect(unsaid).toEqual([])
})

const [sample = { name: '', texts: [] }] = cataloguesIn(
  parsed(
    'words.ts',
    "export const words = { one: 'One', more: (n: number) => `${n}`, states: { on: 'On', off: 'Off' } as const, ...{ last: 'Last' } } as const satisfies Words",
  ),
)

test.for([
  ['words.one', 'more states.on states.off last'],
  ["say(words.more(2), words['last'])", 'one states.on states.off'],
  ['say(words.states[state])', 'one more last'],
  ['say(words.states.on.length)', 'one more states.off last'],
  ['const { states, one: first } = words; say(states.off, first)', 'more states.on last'],
  ['const its = words.states; const text = () => its.on', 'one more states.off last'],
  ['const { one } = other; say({ one, last: its.words.one })', 'one more states.on states.off last'],
  ['type One = typeof words.one', 'one more states.on states.off last'],
  ['say({ ...words })', ''],
])('of a catalogue, %s leaves unsaid: %s', ([code, unsaid]) => {
  const uses = usesIn(parsed('code.ts', code ?? ''), sample.name)
  const left = sample.texts.filter((text) => !uses.some((use) => takes(use, text)))
  expect(left.map((text) => text.join('.')).join(' ')).toBe(unsaid)
})
