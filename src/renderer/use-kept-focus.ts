import { type FocusEvent, type RefObject, useEffect, useRef } from 'react'

/** What has the focus may go away with what it is about: the person then goes on at `home` and not at the top of the page. */
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
