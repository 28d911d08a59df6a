import { useEffect, useState } from 'react'

/** How often a person came back to the window: what they did elsewhere may have changed what is there. */
export function useReturns(): number {
  const [returns, setReturns] = useState(0)
  useEffect(() => {
    const count = () => setReturns((before) => before + 1)
    window.addEventListener('focus', count)
    return () => window.removeEventListener('focus', count)
  }, [])
  return returns
}
