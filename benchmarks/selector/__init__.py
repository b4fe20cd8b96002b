"""The selector of delayed trees on the shipped pair, against static trees and oracles."""
