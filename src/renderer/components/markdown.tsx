import type { ReactNode } from 'react'
import styles from './markdown.module.css'

type Block =
  | { readonly kind: 'heading' | 'paragraph' | 'verbatim'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly string[] }

/** A page of our own documentation, as far as it is written: headings, paragraphs, lists, commands, and tables as they stand there. */
export function Markdown({ text }: { readonly text: string }) {
  return (
    <div className={styles['page']}>
      {blocksOf(text).map((block, index) => (
        // The text never changes while it is shown.
        <BlockOfPage key={`${index}`} block={block} />
      ))}
    </div>
  )
}

function BlockOfPage({ block }: { readonly block: Block }) {
  switch (block.kind) {
    case 'heading':
      return <h4>{inline(block.text)}</h4>
    case 'verbatim':
      return <pre tabIndex={0}>{block.text}</pre>
    case 'list':
      return (
        <ul>
          {block.items.map((item) => (
            <li key={item}>{inline(item)}</li>
          ))}
        </ul>
      )
    case 'paragraph':
      return <p>{inline(block.text)}</p>
  }
}

/** Each is set off by an empty line, but for a block of commands, which may have some in it. */
function blocksOf(text: string): Block[] {
  const blocks: Block[] = []
  for (const [part, commands] of text.matchAll(/^```.*\n([^]*?)^```$|^\S.*(?:\n.+)*/gm)) {
    if (commands !== undefined) blocks.push({ kind: 'verbatim', text: commands.trimEnd() })
    else if (part.startsWith('#')) blocks.push({ kind: 'heading', text: part.replace(/^#+ /, '') })
    else if (part.startsWith('|')) blocks.push({ kind: 'verbatim', text: withoutMarks(part) })
    else if (/^(?:-|\d+\.) /.test(part)) blocks.push({ kind: 'list', items: itemsOf(part) })
    else blocks.push({ kind: 'paragraph', text: part.replaceAll('\n', ' ') })
  }
  return blocks
}

/** A line that begins no item continues the one before. */
function itemsOf(text: string): string[] {
  const items: string[] = []
  for (const line of text.split('\n').map((one) => one.trim())) {
    const [mark] = /^(?:-|\d{1,3}\.) /.exec(line) ?? []
    if (mark === undefined) items.push(`${items.pop() ?? ''} ${line}`)
    else items.push(line.slice(mark.length))
  }
  return items
}

/** Links lead to other pages of the documentation, which the window does not show: their words are kept. */
const withoutMarks = (text: string): string =>
  text.replaceAll(/\[([^[\]\n]+)\]\([^()\n]*\)/g, '$1').replaceAll(/[`*]/g, '')

/** Code stays code; what else is marked is plain. */
const inline = (text: string): ReactNode[] =>
  text
    .split(/(`[^`]+`)/)
    .map((part, index) =>
      part.startsWith('`') ? (
        <code key={`${index}`}>{part.slice(1, -1)}</code>
      ) : (
        withoutMarks(part).replaceAll(/(?<!\w)_([^_\n]+)_(?!\w)/g, '$1')
      ),
    )
