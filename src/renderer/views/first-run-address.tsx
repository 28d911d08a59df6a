import { Button } from '../components/button.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { firstRunWords } from '../words/first-run.ts'
import { Answer } from './answer.tsx'
import { Row, RowButtons, RowNote } from './first-run-row.tsx'

const about = 'address'

/** Where pods reach this machine; where that is not known, what it could be. */
export function AddressRow() {
  const { address, message } = useSnapshot(({ host }) => host)
  const { answer } = useAnswer({ name: 'hostAddresses' }, [address])
  const ask = useWindow((state) => state.ask)
  const connected = useWindow(({ connection }) => connection.state === 'live')
  if (address !== undefined) {
    const network = answer?.addresses.find(({ inUse }) => inUse)?.interface
    return <Row name={firstRunWords.address} value={firstRunWords.at(address, network)} status="done" />
  }
  const fit = answer?.addresses.filter(({ unfit }) => unfit === undefined) ?? []
  return (
    <Row name={firstRunWords.address} value={firstRunWords.noAddress} status="failed">
      {fit.length === 0 && <RowNote>{message}</RowNote>}
      <RowButtons>
        {fit.map((one) => (
          <Button
            key={one.address}
            disabled={!connected}
            onPress={() => void ask(about, { name: 'setHostAddress', address: one.address })}
          >
            {firstRunWords.useAddress(one.address, one.interface)}
          </Button>
        ))}
      </RowButtons>
      <Answer about={about} />
    </Row>
  )
}
