import { type FocusEvent, type KeyboardEvent, type RefObject, useEffect, useRef, useState } from 'react'
import { useWindow } from './store.ts'

/**
 * A question that takes the place of the button that asks it. The button that has the focus goes away with each step: the focus
 * belongs on the answer that changes nothing, and afterwards on the button that came back.
 */
export function useQuestion() {
  const [step, setStep] = useState<'before' | 'asked' | 'after'>('before')
  const close = () => setStep('after')
  return {
    isAsked: step === 'asked',
    isOver: step === 'after',
    open: () => setStep('asked'),
    close,
    /** For what holds the question: Escape is the answer that changes nothing, and goes no further. */
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || step !== 'asked') return
      event.preventDefault()
      event.stopPropagation()
      close()
    },
  }
}

/** Takes the focus to the heading of what a person just chose. */
export function useChosenFocus(heading: RefObject<HTMLElement | null>): void {
  const isChosen = useWindow((state) => state.isChosen)
  useEffect(() => {
    if (!isChosen) return
    heading.current?.focus()
    // A press of the mouse takes the focus on to what was pressed, and to nothing where that is gone by then.
    const frame = requestAnimationFrame(() => {
      if (document.activeElement === document.body) heading.current?.focus()
    })
    return () => cancelAnimationFrame(frame)
  }, [isChosen, heading])
}

/** If the focused element disappears, the focus moves to `home` rather than to the top of the page. */
export function useKeptFocus(home: RefObject<HTMLElement | null>) {
  const isInside = useRef(false)
  useEffect(() => {
    if (isInside.current && document.activeElement === document.body) home.current?.focus()
  })
  return {
    onFocus: () => {
      isInside.current = true
    },
    // An element that is taken out of the page loses the focus without an event.
    onBlur: ({ currentTarget, relatedTarget }: FocusEvent) => {
      isInside.current = relatedTarget !== null && currentTarget.contains(relatedTarget)
    },
  }
}

/** What takes the focus of a row or a part of the settings. */
const focusable = 'input:not(:disabled), button:not(:disabled), summary'

/** So long a part is looked for that is drawn only once the agent has answered, in milliseconds. */
const lookLimitMs = 3_000

/** Takes the focus to the first control of what has this id once that is drawn; after a while to the part itself. Answers what ends the search. */
export function lookFor(id: string): () => void {
  const since = performance.now()
  const look = () => {
    const isLast = performance.now() - since > lookLimitMs
    const found = document.getElementById(id)
    const control = found?.matches(focusable) === true ? found : found?.querySelector<HTMLElement>(focusable)
    if (!control && !isLast) {
      frame = requestAnimationFrame(look)
      return
    }
    found?.scrollIntoView({ block: 'center' })
    const target = control ?? found
    target?.focus({ preventScroll: true })
  }
  let frame = requestAnimationFrame(look)
  return () => cancelAnimationFrame(frame)
}
