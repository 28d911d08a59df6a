import type { RefObject } from 'react'
import { Button } from '../components/button.tsx'
import { NextGlyph, PreviousGlyph } from '../components/glyph.tsx'
import { logWords } from '../words/log.ts'
import styles from './log-search-bar.module.css'

interface LogSearchBarProps {
  readonly field: RefObject<HTMLInputElement | null>
  readonly text: string
  readonly onText: (text: string) => void
  /** Undefined while nothing is searched for. */
  readonly found: { readonly count: number; readonly current: number | undefined } | undefined
  readonly onStep: (direction: 1 | -1) => void
}

/** Return goes to the next match, Shift-Return to the one before, Escape ends the search. */
export function LogSearchBar({ field, text, onText, found, onStep }: LogSearchBarProps) {
  const none = found === undefined || found.count === 0
  return (
    <div className={styles['search']} role="search">
      <input
        ref={field}
        className={styles['field']}
        type="text"
        aria-label={logWords.search}
        placeholder={logWords.searchHint}
        value={text}
        spellCheck={false}
        autoComplete="off"
        onChange={({ currentTarget }) => onText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && !event.nativeEvent.isComposing) onStep(event.shiftKey ? -1 : 1)
          if (event.key !== 'Escape' || text === '') return
          event.stopPropagation()
          onText('')
        }}
      />
      <span className={styles['count']} role="status">
        {found !== undefined && logWords.matches(found.count, found.current)}
      </span>
      <Button look="plain" label={logWords.previousMatch} disabled={none} onPress={() => onStep(-1)}>
        <PreviousGlyph />
      </Button>
      <Button look="plain" label={logWords.nextMatch} disabled={none} onPress={() => onStep(1)}>
        <NextGlyph />
      </Button>
    </div>
  )
}
