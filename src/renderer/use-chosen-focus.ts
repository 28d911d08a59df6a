import { type RefObject, useEffect } from 'react'
import { useWindow } from './store.ts'

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
