import ts from 'typescript'

type Add = (node: ts.Node, words: string) => void

/** Collects, with their lines, the texts of a file that have letters. */
function collector(file: ts.SourceFile): { readonly found: string[]; readonly add: Add } {
  const found: string[] = []
  const add: Add = (node, words) => {
    if (!/\p{L}/u.test(words)) return
    found.push(`${file.fileName}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1} ${words.trim()}`)
  }
  return { found, add }
}

/** In an expression whose value is shown: not what is compared in it, looked up by it, or given on by it. */
function lookInShown(node: ts.Node, add: Add): void {
  const look = (inner: ts.Node): void => lookInShown(inner, add)
  if (ts.isStringLiteralLike(node)) add(node, node.text)
  else if (ts.isTemplateExpression(node)) {
    for (const part of [node.head, ...node.templateSpans.map(({ literal }) => literal)]) add(node, part.text)
  } else if (ts.isConditionalExpression(node)) [node.whenTrue, node.whenFalse].forEach(look)
  else if (ts.isParenthesizedExpression(node) || ts.isSpreadElement(node)) look(node.expression)
  else if (ts.isArrayLiteralExpression(node)) node.elements.forEach(look)
  else if (ts.isBinaryExpression(node)) {
    const { kind } = node.operatorToken
    if (kind === ts.SyntaxKind.PlusToken || kind === ts.SyntaxKind.QuestionQuestionToken) look(node.left)
    if (!isComparison(node)) look(node.right)
  }
}

const isComparison = ({ operatorToken: { kind } }: ts.BinaryExpression): boolean =>
  kind === ts.SyntaxKind.EqualsEqualsEqualsToken || kind === ts.SyntaxKind.ExclamationEqualsEqualsToken

/** Attributes that a person reads or hears. */
const readAttributes: ReadonlySet<string> = new Set([
  ...['label', 'text', 'copyLabel', 'aria-label', 'aria-description', 'aria-valuetext', 'aria-roledescription'],
  ...['alt', 'title', 'placeholder', 'description', 'help', 'problem', 'name', 'value', 'textValue'],
])

/** What a person would read of a view although it stands in no file of words. */
export function sentencesInView(name: string, text: string): string[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX)
  const { found, add } = collector(file)
  const look = (node: ts.Node): void => {
    if (ts.isJsxText(node)) add(node, node.text)
    else if (ts.isJsxExpression(node) && node.expression && !ts.isJsxAttribute(node.parent))
      lookInShown(node.expression, add)
    else if (ts.isJsxAttribute(node) && readAttributes.has(node.name.getText()) && node.initializer) {
      const { initializer } = node
      if (ts.isStringLiteral(initializer)) add(initializer, initializer.text)
      else if (ts.isJsxExpression(initializer) && initializer.expression) lookInShown(initializer.expression, add)
    }
    ts.forEachChild(node, look)
  }
  look(file)
  return found
}

const isText = (node: ts.Node): node is ts.StringLiteralLike | ts.TemplateLiteralLikeNode =>
  ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddle(node) || ts.isTemplateTail(node)

/** The same of code that draws nothing: every text of two words or more, but for what a person who develops Metalbar is told. */
export function sentencesInCode(name: string, text: string): string[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)
  const { found, add } = collector(file)
  const look = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && node.expression.getText() === 'Error') return
    if (isText(node) && /\p{Lu}\p{L}*[ -]\p{L}|\p{L} \p{L}+ \p{L}/u.test(node.text)) add(node, node.text)
    ts.forEachChild(node, look)
  }
  look(file)
  return found
}

/** Properties of menus, questions, notifications and findings that a person reads. */
const readProperties: ReadonlySet<string> = new Set([
  ...['label', 'sublabel', 'toolTip', 'title', 'subtitle', 'body', 'message', 'detail', 'buttons', 'buttonLabel'],
  ...['checkboxLabel', 'yes', 'no', 'text', 'says', 'asks', 'problem', 'notices', 'error'],
])

/** Functions whose first argument is a text of the menu. */
const menuFunctions: ReadonlySet<string> = new Set(['line', 'lines', 'text', 'submenu'])

/** Never read by a person: who a notification is, and keys. */
const unreadProperties: ReadonlySet<string> = new Set(['id', 'accelerator'])

/** What these declare or take is read by a shell, a browser or a disk. */
const unread: ReadonlySet<string> = new Set([
  ...['contentSecurityPolicy', 'shellCommand', 'printed', 'powerScript', 'linkLine', 'afterwards'],
  'path.join',
])

/** One word with a capital letter, or two words: of a template, which is put together of parts, also one beside a space. */
const isSentence = (node: ts.StringLiteralLike | ts.TemplateLiteralLikeNode): boolean =>
  /^\p{Lu}\p{Ll}+\P{L}*$|\p{L} \p{L}/u.test(node.text) ||
  (!ts.isStringLiteral(node) && /\s\p{L}{2,}|\p{L}{2,}\s/u.test(node.text))

/** The same of the app's shell: whatever reads as a sentence, and any letter where a menu, a question or an error takes its text. */
export function sentencesInShell(name: string, text: string): string[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)
  const { found, add } = collector(file)
  const look = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node)) return
    if ((ts.isVariableDeclaration(node) || ts.isFunctionDeclaration(node)) && unread.has(node.name?.getText() ?? ''))
      return
    if (ts.isPropertyAssignment(node) && unreadProperties.has(node.name.getText())) return
    if (ts.isBinaryExpression(node) && isComparison(node)) return
    if (ts.isCaseClause(node)) {
      node.statements.forEach(look)
      return
    }
    if (ts.isCallExpression(node)) {
      const called = node.expression.getText()
      // What is logged is for whoever looks for a defect.
      if (/(?:^|[.#])log\b/.test(called) || unread.has(called)) return
      if (menuFunctions.has(called)) node.arguments.slice(0, 1).forEach((first) => lookInShown(first, add))
    }
    if (ts.isNewExpression(node) && /Error$/.test(node.expression.getText())) {
      // The first argument of a LinkError is its code.
      const said = node.arguments?.slice(node.expression.getText() === 'LinkError' ? 1 : 0, 2) ?? []
      said.forEach((argument) => lookInShown(argument, add))
    }
    if (ts.isPropertyAssignment(node) && readProperties.has(node.name.getText())) lookInShown(node.initializer, add)
    if (isText(node) && isSentence(node)) add(node, node.text)
    ts.forEachChild(node, look)
  }
  look(file)
  return [...new Set(found)]
}
